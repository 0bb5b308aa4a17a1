#include "harpe/command/command/command_line_error.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "harpe/base/text.h"
#include "harpe/command/command/help.h"

namespace harpe::command {
namespace {

std::string see_help(const CLI::App& command) {
  return " (see " + full_name(command) + " --help)";
}

const CLI::App* subcommand_named(const CLI::App& command, const std::string& word) {
  for (const CLI::App* sub : subcommands(command)) {
    if (sub->check_name(word)) return sub;
  }
  return nullptr;
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const OptionHelp& option : option_help(command)) {
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  }
  std::string message = full_name(command) + " has no option " + in_quotes(name);
  if (const auto near = nearest(name, known)) message += "; did you mean '" + *near + "'?";
  return message;
}

bool takes_file(const CLI::App& command) {
  return std::ranges::any_of(option_help(command), [](const OptionHelp& option) {
    return option.positional && option.value == "FILE";
  });
}

/// The subcommands that do what `word` says: "'profile' or 'run'" for "measure".
std::string doing(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* sub : subcommands(command)) {
    if (brief(*sub).starts_with(word + " ")) names.push_back(in_quotes(sub->get_name()));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

/// \param rest  see `Commands::rest`
std::string unknown_subcommand(const CLI::App& command, const std::string& word,
                               const std::string& rest) {
  std::vector<std::string> known, of_files;
  for (const CLI::App* sub : subcommands(command)) {
    known.push_back(sub->get_name());
    if (takes_file(*sub)) of_files.push_back(sub->get_name());
  }
  std::string message = full_name(command) + " has no subcommand " + in_quotes(word);
  std::error_code no_file;
  if (const auto near = nearest(word, known)) {
    message += "; did you mean '" + *near + "'?";
  } else if (const std::string likely = doing(command, word); !likely.empty()) {
    message += "; did you mean " + likely + "?";
  } else if (of_files.size() == 1 && std::filesystem::exists(word, no_file)) {
    message += "; did you mean '" + full_name(command) + " " + of_files.front() + " " + word + "'?";
  } else if (!rest.empty()) {
    message += ": " + rest;
  }
  return message;
}

/// Words that nothing takes, those of the subcommand first: its parents get what follows "--".
std::vector<std::string> unknown_words(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent())
    std::ranges::copy(at->remaining(), std::back_inserter(words));
  return words;
}

/// Says what is wrong with words that no option takes, and what may have been meant.
void add_unknown_words(const CLI::App& command, const std::vector<std::string>& words,
                       const std::string& rest, Error& error) {
  for (const std::string& word : words) {
    std::string message;
    if (word.starts_with('-')) {
      message = unknown_option(command, word);
    } else if (!subcommands(command).empty()) {
      message = unknown_subcommand(command, word, rest);
    } else if (error.diagnostics.empty()) {
      message = full_name(command) + " has no place for " + in_quotes(word);
    } else {
      continue;  // most likely the value of an unknown option
    }
    error.diagnostics.push_back({.message = message + see_help(command)});
    if (!word.starts_with('-')) break;
  }
}

std::string display_name(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : option.get_name();
}

void add_missing(const CLI::App& command, Error& error) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string what = option->get_description();
    if (what.size() > 1 && what[1] >= 'a' && what[1] <= 'z')
      what = lower(what.substr(0, 1)) + what.substr(1);
    error.diagnostics.push_back(
        {.message = display_name(*option) + " is missing" + (what.empty() ? "" : ": " + what)});
  }
}

/// An option whose value or number of values the parser refused, by the beginning of its message.
std::string about_values(const CLI::App& command, const std::string& message) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = display_name(*option);
    if (message.find(name) == std::string::npos || name.empty()) continue;
    if (!message.starts_with(name + ":") && !message.starts_with("Could not convert: " + name)) {
      continue;
    }
    const std::string value = option->get_type_name();
    if (option->results().size() > 1) {
      return name + " is given " + std::to_string(option->results().size()) +
             " times: give it once";
    }
    if (option->results().empty()) {
      return name + " has no value: write " + name + " " + (value.empty() ? "VALUE" : value);
    }
    return name + ": expected " + (value.empty() ? "another value" : value) + ", found " +
           in_quotes(option->results().front());
  }
  return {};
}

/// "A requires B" and "A excludes B" of the parser.
std::string about_two(const std::string& message, const std::string& verb, bool needs) {
  const std::size_t at = message.find(verb);
  if (at == std::string::npos) return {};
  const std::string one = message.substr(0, at), other = message.substr(at + verb.size());
  return needs ? one + " needs " + other : one + " and " + other + " exclude each other: give one";
}

std::string in_own_words(const CLI::App& command, const CLI::ParseError& error) {
  const std::string message = error.what();
  std::string own;
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr) {
    own = about_two(message, " requires ", true);
  } else if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    own = about_two(message, " excludes ", false);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr ||
             dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    own = about_values(command, message);
  } else if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    own = message;  // of Harpe's own readers; the names of an option stand before it
    const std::size_t colon = own.find(": "), comma = own.find(',');
    if (own.starts_with('-') && comma < colon) own.erase(comma, colon - comma);
    if (const std::size_t at = own.find("Value "); at != std::string::npos) {
      if (const std::size_t in = own.find(" not in range "); in != std::string::npos) {
        const std::string found = own.substr(at + 6, in - at - 6);
        own = own.substr(0, at) + "expected a number from " + own.substr(in + 14) + ", found " +
              in_quotes(found);
      }
    }
  }
  return own.empty()
             ? full_name(command) + ": these options do not fit together" + see_help(command)
             : own;
}

/// Options that nothing takes and that stand before the first word of the command to run: that word
/// is most likely the value of such an option.
std::vector<std::string> unknown_options_before_command(const CLI::App& command,
                                                        const std::vector<std::string>& arguments) {
  const CLI::Option* const words = command.get_option_no_throw(kFollowingCommand);
  if (words == nullptr || words->results().empty()) return {};
  const auto begin = std::ranges::find(arguments, words->results().front());
  std::vector<std::string> unknown;
  for (const std::string& word : unknown_words(command))
    if (word.starts_with('-') && std::find(arguments.begin(), begin, word) != begin)
      unknown.push_back(word);
  return unknown;
}

}  // namespace

Status check_values(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* command = &root;
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (!word.starts_with('-')) {
      if (const CLI::App* below = subcommand_named(*command, word)) command = below;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) continue;
    if (option->get_items_expected_max() == 0) {
      return Error::invalid(name + " takes no value: give it, or leave it out" +
                            see_help(*command));
    }
    if (equals + 1 == word.size()) {
      return Error::invalid(name + "= has no value: write " + name + "=" + option->get_type_name());
    }
  }
  return ok_status();
}

Error command_line_error(Commands& commands, const CLI::ParseError& error) {
  const CLI::App& command = commands.chosen();
  Error found{ErrorCode::kInvalidInput, {}};
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    add_unknown_words(command, unknown_words(command), commands.rest(), found);
  }
  if (is_missing) add_missing(command, found);
  if (found.diagnostics.empty()) {
    add_unknown_words(command, unknown_options_before_command(command, commands.arguments()), {},
                      found);
  }
  if (found.diagnostics.empty()) {
    found.diagnostics.push_back({.message = in_own_words(command, error)});
  }
  return found;
}

}  // namespace harpe::command
