#include "harpe/command/command/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "harpe/base/text.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {

namespace {

constexpr int kHelpWidth = 80;
constexpr std::size_t kNamesWidth = 32;

std::string usage(const CLI::App& command) {
  std::string text = full_name(command);
  if (!subcommands(command).empty()) return text + " COMMAND [OPTIONS]";
  text += " [OPTIONS]";
  for (const OptionHelp& option : option_help(command)) {
    if (option.positional) text += option.required ? " " + option.value : " [" + option.value + "]";
  }
  return text;
}

/// Returns the description after its first line.
std::string details(const CLI::App& command) {
  const std::string text = command.get_description();
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? "" : std::string(trim(text.substr(end)));
}

std::string row(const std::string& names, const std::string& description,
                std::size_t names_width = kNamesWidth) {
  std::string text = "  " + names;
  const bool own_line = names.size() + 4 > names_width;
  if (own_line) text += '\n';
  std::size_t column = own_line ? 0 : text.size();
  const int width = kHelpWidth - static_cast<int>(names_width);
  for (const std::string& line : lines_of(wrapped_lines(description, width, 0))) {
    text += std::string(names_width - column, ' ') + line + '\n';
    column = 0;
  }
  return text;
}

/// Returns true for an old spelling of an option, which is accepted but not shown.
bool is_old_spelling(const std::string& name) {
  return name == "microbatches";
}

std::string description_of(const OptionHelp& option) {
  return option.description + (option.required ? " (required)" : "");
}

std::string names_and_value(const OptionHelp& option) {
  if (option.positional) return option.value;
  return joined(option.names) + (option.value.empty() ? "" : " " + option.value);
}

std::string name_and_aliases(const CLI::App& command) {
  std::string text = command.get_name();
  for (const std::string& alias : command.get_aliases()) text += ", " + alias;
  return text;
}

/// Returns the groups in the order of their first options.
std::vector<std::string> groups_of(const std::vector<OptionHelp>& options) {
  std::vector<std::string> groups;
  for (const OptionHelp& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

/// Returns the text escaped for roff: a leading dot or quote is not a request, a hyphen is kept.
std::string roff(const std::string& text) {
  std::string safe;
  if (text.starts_with('.') || text.starts_with('\'')) safe = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

}  // namespace

std::string brief(const CLI::App& command) {
  const std::string text = command.get_description();
  return text.substr(0, text.find('\n'));
}

std::vector<OptionHelp> option_help(const CLI::App& command) {
  std::vector<OptionHelp> result;
  std::vector<OptionHelp> general;  // help and --json, which every command has, are last
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden: options of tests
    OptionHelp help{.names = {},
                    .value = option->get_items_expected_max() == 0 ? "" : option->get_type_name(),
                    .description = option->get_description(),
                    .group = option->get_group(),
                    .positional = option->get_positional(),
                    .required = option->get_required()};
    for (const std::string& name : option->get_snames()) help.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) {
      if (!is_old_spelling(name)) help.names.push_back("--" + name);
    }
    if (help.positional) help.names = {option->get_name()};
    std::vector<OptionHelp>& group = help.group == "General" ? general : result;
    group.push_back(std::move(help));
  }
  result.insert(result.end(), general.begin(), general.end());
  return result;
}

std::vector<const CLI::App*> subcommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return full_name(*command.get_parent()) + " " + command.get_name();
}

Result<const CLI::App*> find_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* command = &root;
  for (const std::string& word : words) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* candidate : subcommands(*command)) {
      names.push_back(candidate->get_name());
      if (candidate->check_name(word)) next = candidate;
    }
    if (next == nullptr) {
      std::string message = full_name(*command) + " has no subcommand " + in_quotes(word);
      if (const auto near = nearest(word, names)) message += "; did you mean '" + *near + "'?";
      return Error::invalid(message);
    }
    command = next;
  }
  return command;
}

std::string help_text(const CLI::App& command) {
  std::string text = full_name(command) + ": " + brief(command) + "\n\nUsage: " + usage(command);
  text += '\n';
  if (const std::string more = details(command); !more.empty()) {
    text += '\n' + wrapped_lines(more, kHelpWidth, 0);
  }
  if (const auto below = subcommands(command); !below.empty()) {
    text += "\nCommands:\n";
    for (const CLI::App* sub : below) text += row(name_and_aliases(*sub), brief(*sub), 14);
  }
  const std::vector<OptionHelp> options = option_help(command);
  for (const std::string& group : groups_of(options)) {
    text += '\n' + group + ":\n";
    for (const OptionHelp& option : options) {
      if (option.group == group) text += row(names_and_value(option), description_of(option));
    }
  }
  if (!command.get_footer().empty()) {
    text += "\nExamples:\n";
    for (const std::string& line : lines_of(command.get_footer())) text += "  " + line + '\n';
  }
  return text;
}

std::string documentation_text(const std::filesystem::path& own) {
  const std::filesystem::path prefix = own.parent_path().parent_path();
  for (const auto& folder : {prefix / "share/doc/harpe/docs", prefix / "docs"}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder / "tutorial.md", ignored))
      return "\nPages named docs/...:\n  " + folder.string() + '\n';
  }
  return "";
}

std::string man_page(const CLI::App& command) {
  const std::string name = dashed(full_name(command));
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  std::string text = ".TH \"" + roff(upper) + "\" 1 \"\" \"harpe " HARPE_VERSION "\"\n.nh\n.ad l\n";
  text += ".SH NAME\n" + roff(name) + " \\- " + roff(brief(command)) + '\n';
  text += ".SH SYNOPSIS\n" + roff(usage(command)) + '\n';
  if (const std::string more = details(command); !more.empty()) {
    text += ".SH DESCRIPTION\n";
    for (const std::string& line : lines_of(more))
      text += line.empty() ? ".PP\n" : roff(line) + '\n';
  }
  if (const auto below = subcommands(command); !below.empty()) {
    text += ".SH COMMANDS\n";
    for (const CLI::App* sub : below) {
      text += ".TP\n.B " + roff(name_and_aliases(*sub)) + '\n' + roff(brief(*sub)) + '\n';
    }
  }
  const std::vector<OptionHelp> options = option_help(command);
  if (!options.empty()) text += ".SH OPTIONS\n";
  for (const std::string& group : groups_of(options)) {
    text += ".SS " + roff(group) + '\n';
    for (const OptionHelp& option : options) {
      if (option.group != group) continue;
      text +=
          ".TP\n.B " + roff(names_and_value(option)) + '\n' + roff(description_of(option)) + '\n';
    }
  }
  if (!command.get_footer().empty()) {
    text += ".SH EXAMPLES\n.nf\n";
    for (const std::string& line : lines_of(command.get_footer())) text += roff(line) + '\n';
    text += ".fi\n";
  }
  text += ".SH EXIT STATUS\n.TP\n.B 0\nSuccess.\n.TP\n.B 1\nA check refused its input.\n";
  text +=
      ".TP\n.B 2\nWrong input, no plan exists, or a file could not be read or written; nothing "
      "was written.\n.TP\n.B 69\nA device or driver does not support the request, or is "
      "unavailable "
      "now.\n.TP\n.B 70\nA defect in Harpe.\n.TP\n.B 75\nAnother client holds the "
      "device.\n.TP\n.B 77\nNo permission; the message suggests a remedy.\n";
  std::vector<std::string> related;
  for (const CLI::App* sub : subcommands(command)) {
    related.push_back(".BR " + roff(dashed(full_name(*sub))) + " (1)");
  }
  if (command.get_parent() != nullptr) {
    related.insert(related.begin(),
                   ".BR " + roff(dashed(full_name(*command.get_parent()))) + " (1)");
  }
  if (!related.empty()) text += ".SH SEE ALSO\n" + joined(related, ",\n") + '\n';
  return text;
}

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

/// Returns the subcommands described by `word`: "'profile' or 'run'" for "measure".
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

/// Returns the unknown words. The words of the subcommand come first, because its parents get the
/// words after "--".
std::vector<std::string> unknown_words(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent())
    std::ranges::copy(at->remaining(), std::back_inserter(words));
  return words;
}

/// Adds an error for the unknown words, with a suggestion if there is one.
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

/// Returns the error of an option with a wrong value or number of values, which the beginning of
/// the parser's message names; empty if there is none.
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

/// Returns the error for "A requires B" or "A excludes B" of the parser.
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
    own = message;  // from Harpe's own parsers, after the names of an option
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

/// Returns the unknown options before the first word of the command to run: that word is most
/// likely the value of such an option.
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

namespace {

/// Returns the command with its options and subcommands as JSON. `value` is empty for a flag.
Json described(const CLI::App& command) {
  Json options = Json::array(), commands = Json::array();
  for (const OptionHelp& option : option_help(command)) {
    options.push_back({{"names", option.names},
                       {"value", option.value},
                       {"description", option.description},
                       {"positional", option.positional},
                       {"required", option.required}});
  }
  for (const CLI::App* sub : subcommands(command)) commands.push_back(described(*sub));
  return {{"name", command.get_name()},
          {"brief", brief(command)},
          {"options", std::move(options)},
          {"commands", std::move(commands)}};
}

}  // namespace

void add_man_command(Commands& commands, const std::string& example) {
  const std::string program = commands.root().get_name();
  std::string file = program + '-' + example + ".1";
  std::ranges::replace(file, ' ', '-');
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& app = commands.add(
      commands.root(), "man",
      "print a manual page\n"
      "Prints the page of the whole program or of one subcommand, in roff, from the same text as "
      "--help.",
      program + " man | man -l -\n" + program + " man " + example + " > " + file,
      [words, &commands](Console&) -> Result<Outcome> {
        const auto command = HARPE_TRY(find_command(commands.root(), *words));
        const std::string page = man_page(*command);
        return Outcome{.text = page,
                       .json = json_text({{"page", page}, {"command", described(*command)}})};
      });
  app.add_option("SUBCOMMAND", *words, "The subcommand, such as " + example)
      ->type_name("SUBCOMMAND")
      ->group("Arguments");
}

}  // namespace harpe::command
