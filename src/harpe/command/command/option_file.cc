#include "harpe/command/command/option_file.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/base/toml.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

using Type = JsonValue::Type;

constexpr std::size_t kLargestFile = 1 << 20;
constexpr std::string_view kConfig = "config";

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

bool takes_several(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

/// Returns the value as on the command line, with numbers as written; nullopt for other types.
std::optional<std::string> text_of(const JsonValue& value) {
  if (value.type == Type::kString || value.type == Type::kNumber) return value.string;
  return std::nullopt;
}

/// Returns the values of an option that is not a flag; nullopt if the file has another type.
std::optional<std::vector<std::string>> values_of(const JsonValue& value, bool several) {
  std::vector<std::string> values;
  if (value.type == Type::kArray && several) {
    for (const JsonValue& item : value.items) {
      const auto text = text_of(item);
      if (!text) return std::nullopt;
      values.push_back(*text);
    }
    return values;
  }
  const auto text = text_of(value);
  if (!text) return std::nullopt;
  values.push_back(*text);
  return values;
}

class OptionTaker {
 public:
  OptionTaker(CLI::App& command, const std::string& file) : command_(command), diagnostics_(file) {}

  void take(const std::string& key, const JsonValue& value) {
    CLI::Option* option = find(key);
    if (option == nullptr) {
      const auto near = nearest(key, known());
      error(value.key_line, value.key_column,
            "unknown option " + in_quotes(key) +
                (near ? "; did you mean '" + *near + "'?"
                      : " (see " + full_name(command_) + " --help)"));
    } else if (!from_file_.insert(option).second) {
      error(value.key_line, value.key_column, key + ": is given twice, by two names");
    } else if (option->count() == 0) {
      give(key, value, *option);
    }
  }

  Result<OptionPositions> taken() && {
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(positions_);
  }

 private:
  /// Returns false for help, the version and --json, which are about one run and not about the
  /// setup of a command.
  static bool may_stand_in_file(const CLI::Option& option) {
    return option.get_configurable() && option.get_group() != "General" && !option.get_positional();
  }

  CLI::Option* find(const std::string& key) {
    CLI::Option* option = command_.get_option_no_throw("--" + key);
    return option != nullptr && may_stand_in_file(*option) ? option : nullptr;
  }

  std::vector<std::string> known() const {
    std::vector<std::string> names;
    for (const OptionHelp& option : option_help(command_)) {
      for (const std::string& name : option.names) {
        if (!name.starts_with("--")) continue;
        if (may_stand_in_file(*command_.get_option(name))) names.push_back(name.substr(2));
      }
    }
    return names;
  }

  void give(const std::string& key, const JsonValue& value, CLI::Option& option) {
    std::vector<std::string> values;
    if (is_flag(option)) {
      if (value.type != Type::kBool) {
        return error(value.line, value.column, key + ": expected true or false");
      }
      if (!value.boolean) return;
      values = {"true"};
    } else if (auto texts = values_of(value, takes_several(option))) {
      values = *std::move(texts);
    } else {
      return error(value.line, value.column,
                   key + ": expected text or a number" +
                       (takes_several(option) ? ", or a list of them" : ""));
    }
    if (values.empty()) return;
    try {
      option.add_result(std::move(values));
      option.run_callback();
      positions_[key] = {value.line, value.column};
    } catch (const CLI::ParseError& refused) {
      error(value.line, value.column, why(key, option, refused));
    }
  }

  /// Returns the error under the name of the key: a parser's error begins with the option's names.
  static std::string why(const std::string& key, const CLI::Option& option,
                         const CLI::ParseError& refused) {
    if (dynamic_cast<const CLI::ValidationError*>(&refused) != nullptr) {
      const std::string text = refused.what();
      if (const std::size_t colon = text.find(": "); colon != std::string::npos) {
        return key + text.substr(colon);
      }
    }
    return key + ": expected " + option.get_type_name() + ", found " +
           in_quotes(option.results().front());
  }

  void error(int line, int column, std::string message) {
    diagnostics_.add(line, column, std::move(message));
  }

  CLI::App& command_;
  Diagnostics diagnostics_;
  OptionPositions positions_;
  std::set<const CLI::Option*> from_file_;
};

}  // namespace

CLI::Option* add_config_option(CLI::App& command, std::string& file) {
  return add_text(command, "--" + std::string(kConfig), "FILE",
                  "TOML file of options: a key is an option without its dashes. Options on the "
                  "command line override the file",
                  file)
      ->configurable(false);
}

Result<OptionPositions> take_options(CLI::App& command, std::string_view text,
                                     const std::string& file) {
  const JsonValue document = HARPE_TRY(parse_toml(text, file));
  OptionTaker taker(command, file);
  for (const auto& [key, value] : document.members) taker.take(key, value);
  return std::move(taker).taken();
}

Result<OptionPositions> take_option_file(CLI::App& command, const std::string& file) {
  if (file.empty()) return OptionPositions{};
  const std::string text = HARPE_TRY(read_file(file, kLargestFile));
  return take_options(command, text, file);
}

}  // namespace harpe::command
