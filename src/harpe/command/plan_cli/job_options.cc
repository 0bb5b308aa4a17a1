#include "harpe/command/plan_cli/job_options.h"

#include <algorithm>
#include <string>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"
#include "harpe/command/input/input_file.h"

namespace harpe::command {
namespace {

/// Returns true if a file is a table, not a job: its first line has several columns and no '='.
bool is_table(std::string_view text) {
  Diagnostics ignored;
  const std::size_t end = text.find_first_not_of(" \t\r\n");
  if (end == std::string_view::npos || text[end] == '[' || text[end] == '{') return false;
  const auto rows = split_csv(text.substr(0, 100'000), ignored);
  if (rows.empty() || rows.front().cells.size() < 3) return false;
  return std::ranges::none_of(rows.front().cells, [](const CsvCell& cell) {
    return cell.text.find('=') != std::string::npos;
  });
}

Result<PlanJob> entries_of(const PlanJobArguments& arguments) {
  std::vector<JobEntry> entries;
  if (!arguments.job_file.empty()) {
    const std::string text = HARPE_TRY(read_input_file(arguments.job_file));
    if (is_table(text)) {  // harpe plan profile.csv
      const auto profile = std::ranges::find(job_keys(), "profile", &JobKey::name);
      std::vector<JobEntry> options = arguments.options;
      options.insert(options.begin(), {.key = &*profile, .values = {arguments.job_file}});
      const auto is_profile = [&](const JobEntry& entry) { return entry.key == &*profile; };
      if (std::ranges::count_if(options, is_profile) > 1) {
        return Error::invalid(in_quotes(arguments.job_file) +
                              " is a table, but --profile names another: give one profile");
      }
      return make_job({}, options);
    }
    if (trim(text).starts_with('{')) {
      return Error::invalid(in_quotes(arguments.job_file) +
                            " is JSON: a job file is TOML, a line such as micro-batches = 96 for "
                            "each option");
    }
    entries = HARPE_TRY(parse_job(text, arguments.job_file));
  }
  return make_job(entries, arguments.options);
}

}  // namespace

CLI::Option* add_job_option(CLI::App& app, const JobKey& key,
                            const std::shared_ptr<std::vector<JobEntry>>& entries) {
  std::string name = "--" + std::string(key.name);
  if (key.name == "micro-batches") name += ",--microbatches";  // older spelling
  const std::string help(key.help);
  const bool is_list = key.value.find(',') != std::string_view::npos;
  CLI::Option* option = nullptr;
  if (key.value.empty()) {
    const auto add = [entries, &key](std::int64_t) { entries->push_back({.key = &key}); };
    option = app.add_flag_function(name, add, help);
  } else {
    const auto add = [entries, &key, is_list](const std::string& text) {
      entries->push_back(
          {.key = &key, .values = is_list ? split_list(text) : std::vector<std::string>{text}});
    };
    option =
        app.add_option_function<std::string>(name, add, help)->type_name(std::string(key.value));
  }
  return option->group(std::string(key.group));
}

void add_job_arguments(CLI::App& app, const std::shared_ptr<PlanJobArguments>& arguments,
                       const std::function<bool(const JobKey&)>& offers) {
  app.add_option("JOB", arguments->job_file,
                 "Job file (its keys are the options below), or a profile (CSV)")
      ->type_name("job.toml")
      ->group("Arguments");
  for (const JobKey& key : job_keys()) {
    if (offers(key)) add_job_option(app, key, {arguments, &arguments->options});
  }
}

Status read_job_latency(PlanJob& job) {
  GivenLatency& given = job.switch_latency;
  if (!job.states_latency) {
    given = HARPE_TRY(found_latency(job.profile));
  } else if (!given.table.empty()) {
    given.by_clock = HARPE_TRY(given_latency_table(given.table));
  }
  return ok_status();
}

Result<PlanJob> read_job(const PlanJobArguments& arguments) {
  PlanJob job = HARPE_TRY(entries_of(arguments));
  HARPE_TRY(read_job_latency(job));
  return job;
}

}  // namespace harpe::command
