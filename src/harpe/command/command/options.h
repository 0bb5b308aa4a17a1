#pragma once
/// \file
/// Options of subcommands with values parsed by Harpe's own readers. Include only in `.cc` files.

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace harpe::command {

/// A scope in which options and flags are added to a group of the help.
class OptionGroup {
 public:
  OptionGroup(CLI::App& app, const std::string& name)
      : app_(app), before_(app.option_defaults()->get_group()) {
    app.option_defaults()->group(name);
  }
  ~OptionGroup() { app_.option_defaults()->group(before_); }
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::App& app_;
  std::string before_;
};

/// Adds an option whose text `parse` converts to a `Result`; an error ends the command line.
/// \param value_name  name of the value in capitals, with its unit: "SECONDS"
template <class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& names, const std::string& value_name,
                        const std::string& help, T& target, Parse parse) {
  const auto read = [&target, parse, names](const std::string& text) {
    auto value = parse(text);
    if (!value.ok()) throw CLI::ValidationError(names, value.error().text());
    target = std::move(value).value();
  };
  return app.add_option_function<std::string>(names, read, help)->type_name(value_name);
}

/// Adds an option whose text or path is not parsed.
template <class T>
CLI::Option* add_text(CLI::App& app, const std::string& names, const std::string& value_name,
                      const std::string& help, T& target) {
  return app
      .add_option_function<std::string>(
          names,
          [&target, names](const std::string& text) {
            if (text.empty()) throw CLI::ValidationError(names, "expected a value, found ''");
            target = text;
          },
          help)
      ->type_name(value_name);
}

/// Adds a required positional argument.
/// \param value_name  name of the value, such as "plan.json"; empty: the same as `name`
inline CLI::Option* add_argument(CLI::App& app, const std::string& name, const std::string& help,
                                 std::string& target, const std::string& value_name = {}) {
  return app.add_option(name, target, help)
      ->type_name(value_name.empty() ? name : value_name)
      ->required()
      ->group("Arguments");
}

}  // namespace harpe::command
