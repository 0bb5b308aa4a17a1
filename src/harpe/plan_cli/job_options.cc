#include "harpe/plan_cli/job_options.h"

#include <string>

#include "harpe/base/text.h"

namespace harpe {
namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

CLI::Option* add_job_option(CLI::App& app, const JobKey& key,
                            const std::shared_ptr<std::vector<JobEntry>>& entries) {
  std::string name = "--" + std::string(key.name);
  if (key.name == "micro-batches") name += ",--microbatches";  // as older command lines have it
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

}  // namespace harpe
