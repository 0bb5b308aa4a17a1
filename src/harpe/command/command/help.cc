#include "harpe/command/command/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <system_error>

#include "harpe/base/text.h"
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

/// The description after its first line.
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

/// Another spelling that older command lines have; taken, but not shown.
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

/// Groups in order of their first option.
std::vector<std::string> groups_of(const std::vector<OptionHelp>& options) {
  std::vector<std::string> groups;
  for (const OptionHelp& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

/// Text for roff: a leading dot or quote is no request, a hyphen stays one.
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
  std::vector<OptionHelp> general;  // help and --json, which every command has, come last
  for (const CLI::Option* option : command.get_options()) {
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
  text += ".SH EXIT STATUS\n.TP\n.B 0\nSuccess.\n.TP\n.B 1\nA check refused what it was given.\n";
  text +=
      ".TP\n.B 2\nWrong input, no plan exists, or a file could not be read or written; nothing "
      "was written.\n.TP\n.B 70\nA defect of Harpe.\n";
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

}  // namespace harpe::command
