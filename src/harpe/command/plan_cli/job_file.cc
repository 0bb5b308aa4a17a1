#include <algorithm>
#include <filesystem>

#include "harpe/base/text.h"
#include "harpe/base/toml.h"
#include "harpe/command/plan_cli/given_latency.h"
#include "harpe/command/plan_cli/plan_job.h"

namespace harpe::command {
namespace {

/// Returns the option's name. Underscores are accepted for hyphens.
std::string option_name(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name == "microbatches" ? "micro-batches" : name;
}

std::string unknown_key(const std::string& key) {
  std::vector<std::string> names;
  for (const JobKey& known : job_keys()) names.emplace_back(known.name);
  std::string message = "unknown key " + in_quotes(key);
  if (const auto near = nearest(option_name(key), names)) {
    message += "; did you mean '" + *near + "'?";
  }
  return message;
}

bool is_list(const JsonValue& value) {
  return value.type == JsonValue::Type::kArray;
}

/// Returns the expected type of the key's value if `value` has another type; empty if it fits.
std::string wrong_type(const JobKey& key, const JsonValue& value) {
  if (key.value.empty()) {
    return value.type == JsonValue::Type::kBool ? "" : "expected true or false";
  }
  const auto fits = [](const JsonValue& one) {
    return one.type == JsonValue::Type::kNumber || one.type == JsonValue::Type::kString;
  };
  const bool takes_list = key.value.find(',') != std::string_view::npos;
  if (fits(value)) return "";
  if (takes_list && is_list(value) && !value.items.empty() &&
      std::ranges::all_of(value.items, fits)) {
    return "";
  }
  return std::string("expected a number or text") + (takes_list ? ", or a list of them" : "");
}

/// Returns the value in the syntax of the command line.
std::string text_of(const JsonValue& value) {
  if (value.type == JsonValue::Type::kBool) return value.boolean ? "true" : "false";
  return value.string;
}

/// Returns true for paths, and for files of schedules and latencies: relative to the job file.
bool is_path(const JobKey& key, const std::string& value) {
  if (value.empty() || value == "-") return false;
  if (key.name == "switch-latency") return is_latency_table(value);
  return key.is_path || (key.name == "schedule" && value.find_first_of("./") != std::string::npos);
}

/// Returns a value of the job file. A path in it becomes relative to the folder of `file`.
std::string placed(const JobKey& key, const std::string& value, const std::filesystem::path& file) {
  if (is_path(key, value)) return (file.parent_path() / value).string();
  constexpr std::string_view kFile = "file:";
  if (key.name == "carbon" && value.starts_with(kFile) && value.size() > kFile.size())
    return std::string(kFile) + (file.parent_path() / value.substr(kFile.size())).string();
  return value;
}

}  // namespace

Result<std::vector<JobEntry>> parse_job(std::string_view text, const std::filesystem::path& file) {
  Diagnostics diagnostics(file.string());
  std::vector<JobEntry> entries;
  const JsonValue job = read_toml(text, diagnostics);
  for (const auto& [name, value] : job.members) {
    const auto key = std::ranges::find(job_keys(), option_name(name), &JobKey::name);
    if (key == job_keys().end()) {
      diagnostics.add(value.key_line, value.key_column, unknown_key(name));
      continue;
    }
    const auto same = [&](const JobEntry& other) { return other.key == &*key; };
    if (std::ranges::any_of(entries, same)) {
      diagnostics.add(value.key_line, value.key_column, std::string(key->name) + " is given twice");
      continue;
    }
    if (const std::string wrong = wrong_type(*key, value); !wrong.empty()) {
      diagnostics.add(value.line, value.column, std::string(key->name) + ": " + wrong);
      continue;
    }
    JobEntry& added = entries.emplace_back(
        JobEntry{.key = &*key, .file = file.string(), .line = value.line, .column = value.column});
    for (const JsonValue& one : is_list(value) ? value.items : std::vector{value}) {
      added.values.push_back(placed(*key, text_of(one), file));
    }
  }
  // A switch that is off counts as not given.
  std::erase_if(entries, [](const JobEntry& entry) {
    return entry.key->value.empty() && entry.values.front() == "false";
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return entries;
}

}  // namespace harpe::command
