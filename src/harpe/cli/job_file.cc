#include <algorithm>
#include <filesystem>

#include "harpe/base/text.h"
#include "harpe/cli/flat_toml.h"
#include "harpe/cli/plan_job.h"

namespace harpe {
namespace {

/// Underscores may stand for the hyphens of the options.
std::string option_name(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
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

/// What a value of the key should be, where `entry` is something else; empty where it fits.
std::string wrong_type(const JobKey& key, const TomlEntry& entry) {
  const auto is_boolean = [](const TomlScalar& value) {
    return value.type == TomlScalar::Type::kBoolean;
  };
  const bool any_boolean = std::ranges::any_of(entry.values, is_boolean);
  if (key.value.empty()) return entry.is_list || !any_boolean ? "expected true or false" : "";
  const bool takes_list = key.value.find(',') != std::string_view::npos;
  if (!any_boolean && !entry.values.empty() && (takes_list || !entry.is_list)) return "";
  return std::string("expected a number or text") + (takes_list ? ", or a list of them" : "");
}

/// Paths, and schedules that are files, are relative to the job file.
bool is_path(const JobKey& key, const std::string& value) {
  if (value.empty() || value == "-") return false;
  return key.is_path || (key.name == "schedule" && value.find_first_of("./") != std::string::npos);
}

}  // namespace

Result<std::vector<JobEntry>> parse_job(std::string_view text, const std::filesystem::path& file) {
  Faults faults(file.string());
  std::vector<JobEntry> entries;
  for (const TomlEntry& entry : read_flat_toml(text, faults)) {
    const auto key = std::ranges::find(job_keys(), option_name(entry.key), &JobKey::name);
    if (key == job_keys().end()) {
      faults.add(entry.key_line, entry.key_column, unknown_key(entry.key));
      continue;
    }
    const auto same = [&](const JobEntry& other) { return other.key == &*key; };
    if (std::ranges::any_of(entries, same)) {
      faults.add(entry.key_line, entry.key_column, std::string(key->name) + " is given twice");
      continue;
    }
    if (const std::string wrong = wrong_type(*key, entry); !wrong.empty()) {
      faults.add(entry.line, entry.column, std::string(key->name) + ": " + wrong);
      continue;
    }
    JobEntry& added = entries.emplace_back(
        JobEntry{.key = &*key, .file = file.string(), .line = entry.line, .column = entry.column});
    for (const TomlScalar& value : entry.values) {
      const bool relative = is_path(*key, value.text);
      added.values.push_back(relative ? (file.parent_path() / value.text).string() : value.text);
    }
  }
  // A switch that is off is one that was not given.
  std::erase_if(entries, [](const JobEntry& entry) {
    return entry.key->value.empty() && entry.values.front() == "false";
  });
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return entries;
}

}  // namespace harpe
