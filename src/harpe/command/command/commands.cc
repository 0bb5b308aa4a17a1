#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <ostream>
#include <span>
#include <system_error>

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {
namespace {

constexpr const char* kGeneral = "General";

/// Returns the words that name a subcommand: {"profile", "measure"}.
std::vector<std::string> words_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return {};
  std::vector<std::string> words = words_of(*app.get_parent());
  words.push_back(app.get_name());
  return words;
}

bool begins_with(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  return arguments.size() >= words.size() &&
         std::ranges::equal(words, std::span(arguments).first(words.size()));
}

bool begins_with_any(const std::vector<std::string>& arguments,
                     const std::vector<std::vector<std::string>>& names) {
  return std::ranges::any_of(names,
                             [&](const auto& words) { return begins_with(arguments, words); });
}

int report(const Error& error, Console& console) {
  if (console.json) {
    (console.out_is_others ? console.err : console.out) << error_json(error, console.warnings);
  } else {
    for (const Diagnostic& diagnostic : error.diagnostics) {
      console.err << painted("error:", Paint::kRed, console.colour_err) << ' ' << diagnostic.text()
                  << '\n';
    }
  }
  return exit_status(error.code);
}

/// Adds the command's warnings to a JSON object, as its last member.
std::string with_warnings(const std::string& json, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return json;
  Json document = json_or_discarded(json);
  if (!document.is_object()) return json;
  document["warnings"] = warnings;
  return json_text(document);
}

/// Parses the arguments. Returns an exit status if all output was already written.
std::optional<int> parse(Commands& commands, const std::vector<std::string>& arguments,
                         Console& console) {
  if (const Status given = check_values(commands.root(), arguments); !given.ok()) {
    return report(given.error(), console);
  }
  try {
    commands.root().parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App& command = commands.chosen();
    console.out << help_text(command);
    if (&command == &commands.root()) {
      std::error_code unknown;
      console.out << documentation_text(std::filesystem::read_symlink("/proc/self/exe", unknown));
    }
    return 0;
  } catch (const CLI::CallForVersion&) {
    console.out << commands.root().get_name() << " " HARPE_VERSION "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(command_line_error(commands, error), console);
  }
  return std::nullopt;
}

/// Quotes a word for a POSIX shell.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,=+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Replaces the password: http://name:password@host becomes http://name:...@host.
std::string without_password(std::string word) {
  const std::size_t scheme = word.find("://");
  if (scheme == std::string::npos) return word;
  const std::size_t from = scheme + 3;
  const std::size_t end = word.find('/', from);
  const std::size_t at = word.substr(0, end).rfind('@');
  const std::size_t colon = word.find(':', from);
  if (at == std::string::npos || colon == std::string::npos || colon > at) return word;
  return word.replace(colon + 1, at - colon - 1, "...");
}

}  // namespace

std::string error_json(const Error& error, const std::vector<std::string>& warnings) {
  Json diagnostics = Json::array();
  for (const Diagnostic& diagnostic : error.diagnostics) {
    Json entry;
    entry["file"] = diagnostic.file.empty() ? Json() : Json(diagnostic.file);
    entry["line"] = diagnostic.line == 0 ? Json() : Json(diagnostic.line);
    entry["column"] = diagnostic.column == 0 ? Json() : Json(diagnostic.column);
    entry["message"] = diagnostic.message;
    diagnostics.push_back(std::move(entry));
  }
  Json document = {
      {"error", {{"code", name_of(error.code)}, {"diagnostics", std::move(diagnostics)}}}};
  if (!warnings.empty()) document["warnings"] = warnings;
  return json_text(document);
}

Commands::Commands(const std::string& name, const std::string& description,
                   const std::string& examples, Action action)
    : root_(std::make_unique<CLI::App>(description, name)) {
  describe(*root_, examples, std::move(action));
  root_->set_version_flag("--version", name + " " HARPE_VERSION, "Show the version")
      ->group(kGeneral);
}

Commands::~Commands() = default;

CLI::App& Commands::add(CLI::App& parent, const std::string& name, const std::string& description,
                        const std::string& examples, Action action) {
  CLI::App& app = *parent.add_subcommand(name, description);
  if (name == "list") app.alias("ls");
  if (name == "remove") app.alias("rm");
  describe(app, examples, std::move(action));
  return app;
}

void Commands::describe(CLI::App& app, const std::string& examples, Action action) {
  app.footer(examples);
  app.set_help_flag("-h,--help", "Show this help")->group(kGeneral);
  app.option_defaults()->group("Options");
  if (!action) {
    app.require_subcommand(0, 1);
    return;
  }
  // Detected before parsing, so that errors of the command line are JSON, too.
  app.add_flag_callback(
         "--json", [] {}, "Print the result or the error as JSON on standard output")
      ->group(kGeneral);
  actions_.emplace_back(&app, std::move(action));
}

CLI::App& Commands::chosen() {
  CLI::App* command = root_.get();
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

Action Commands::action(const CLI::App& command) const {
  for (const auto& [app, action] : actions_) {
    if (app == &command) return action;
  }
  return {};
}

void Commands::let_command_follow(CLI::App& app, const std::string& help) {
  with_command_.push_back(words_of(app));
  const std::string name = full_name(app);
  app.add_option_function<std::vector<std::string>>(
         kFollowingCommand,
         [name](const std::vector<std::string>& words) {
           throw CLI::ValidationError(kFollowingCommand,
                                      "write -- between options and the command: " + name + " -- " +
                                          words.front() + " ...");
         },
         help)
      ->type_name("-- COMMAND [ARGUMENT]...")
      ->group("Arguments");
}

void Commands::take_following_command(std::vector<std::string>& arguments) {
  if (!begins_with_any(arguments, with_command_)) return;
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes == arguments.end()) return;
  following_.assign(std::next(dashes), arguments.end());
  arguments.erase(dashes, arguments.end());
}

void Commands::leave_output_to_command(const CLI::App& app) {
  output_left_.push_back(words_of(app));
}

bool Commands::leaves_output(const std::vector<std::string>& arguments) const {
  return begins_with_any(arguments, output_left_);
}

std::string program_version(const Commands& commands) {
  return commands.root().get_name() + " " HARPE_VERSION;
}

std::string Commands::command_line(std::span<const std::string_view> outputs) const {
  std::string line = root_->get_name();
  for (auto word = arguments_.begin(); word != arguments_.end(); ++word) {
    if (*word == "--json") continue;
    const std::string name = word->substr(0, word->find('='));
    if (std::ranges::find(outputs, name) == outputs.end()) {
      line += ' ' + shell_word(without_password(*word));
    } else if (name == *word && std::next(word) != arguments_.end()) {
      ++word;  // its value
    }
  }
  return line;
}

int run_program(const MakeCommands& make, const std::vector<std::string>& given, Console& console) {
  std::vector<std::string> arguments = given;
  if (!arguments.empty() &&
      arguments.front() == "help") {  // harpe help plan equals harpe plan --help
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  } else if (!arguments.empty() && arguments.front() == "version") {
    arguments.front() = "--version";
  }
  const auto wants_json = [&] {
    return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  };
  console.json = wants_json();
  try {
    const std::unique_ptr<Commands> made = make();
    Commands& commands = *made;
    commands.keep_arguments(given);
    console.out_is_others = commands.leaves_output(arguments);
    commands.take_following_command(arguments);
    console.json = wants_json();
    if (const auto status = parse(commands, arguments, console)) return *status;
    const CLI::App& command = commands.chosen();
    const Action action = commands.action(command);
    if (!action) {
      console.err << help_text(command);
      return exit_status(ErrorCode::kInvalidInput);
    }
    const Result<Outcome> outcome = action(console);
    if (!outcome.ok()) return report(outcome.error(), console);
    console.out << (console.json ? with_warnings(outcome->json, console.warnings) : outcome->text);
    if (!console.out.flush()) {
      return report(Error::io("standard output", "cannot be written"), console);
    }
    return outcome->status;
  } catch (const std::exception& defect) {
    return report(Error::internal(std::string("defect: ") + defect.what()), console);
  }
}

}  // namespace harpe::command
