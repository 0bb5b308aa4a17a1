#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {
namespace {

constexpr const char* kJobs = "jobs";  ///< ids of the server at HARPE_SERVER

constexpr const char* kRecurringJobs = "recurring-jobs";

constexpr const char* kGpus = "gpus";  ///< UUIDs of this machine's GPUs

Result<std::vector<std::string>> ids(const std::string& path) {
  JobServer server = HARPE_TRY(JobServer::open(ServerArguments{}));
  const Json document = HARPE_TRY(ask_for_pages(server, path));
  std::vector<std::string> found;
  for (const Json& job : document.value("jobs", Json::array())) {
    if (job.is_object() && job.contains("id") && job["id"].is_string()) found.push_back(job["id"]);
  }
  return found;
}

Result<std::vector<std::string>> uuids() {
  const Devices devices = HARPE_TRY(open_all_devices(DeviceArguments{}));
  std::vector<std::string> found;
  for (const auto& gpu : devices.gpus) found.push_back(gpu->identity().uuid);
  return found;
}

/// Returns the names of the word lists.
std::vector<std::string> completion_word_lists() {
  return {kJobs, kRecurringJobs, kGpus};
}

/// Returns the words of a list. Fails if the server or the devices do not answer.
Result<std::vector<std::string>> completion_words(std::string_view list) {
  if (list == kGpus) return uuids();
  return ids(list == kJobs ? "/v1/jobs?activity=active,idle" : "/v1/recurring-jobs?limit=1000");
}

CLI::App* subcommand_named(CLI::App& command, const std::string& name) {
  const auto found =
      command.get_subcommands([&](const CLI::App* app) { return app->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

/// Adds the options and subcommands that `command` lacks.
/// \param described  as `man --json` describes a command
void add_described(CLI::App& command, const Json& described) {
  for (const Json& option : described.value("options", Json::array())) {
    const auto names = option.value("names", std::vector<std::string>{});
    if (names.empty() || command.get_option_no_throw(names.front()) != nullptr) continue;
    const std::string value = option.value("value", ""), name = joined(names, ",");
    CLI::Option& added = value.empty() ? *command.add_flag(name) : *command.add_option(name);
    added.description(option.value("description", ""));
    if (!value.empty()) added.type_name(value);
  }
  for (const Json& sub : described.value("commands", Json::array())) {
    const std::string name = sub.value("name", "");
    CLI::App* known = subcommand_named(command, name);
    if (known == nullptr) known = command.add_subcommand(name, sub.value("brief", ""));
    add_described(*known, sub);
  }
}

/// Adds the commands of harpe-lab: to `lab`, or to the command of that name if `harpe` has one.
void add_commands_of_lab(CLI::App& root) {
  const Json document = json_or_discarded(description_of_lab());
  if (!document.is_object()) return;
  const Json lab = document.value("command", Json::object());
  for (const Json& sub : lab.value("commands", Json::array())) {
    const bool is_shared = subcommand_named(root, sub.value("name", "")) != nullptr;
    add_described(is_shared ? root : *root.get_subcommand("lab"),
                  {{"commands", Json::array({sub})}});
  }
}

/// Appends the command and its subcommands, each command before its subcommands.
void walk(const CLI::App& command, std::vector<const CLI::App*>& found) {
  found.push_back(&command);
  for (const CLI::App* sub : subcommands(command)) walk(*sub, found);
}

/// Returns the first sentence or line of a description, without characters special to shells.
std::string plain(const std::string& description) {
  std::string text = description.substr(0, description.find('\n'));
  text = text.substr(0, text.find(". "));
  std::erase_if(text, [](char c) {
    return c == '\'' || c == '"' || c == '`' || c == '$' || c == '[' || c == ']' || c == '\\';
  });
  std::replace(text.begin(), text.end(), ':', ',');
  return text;
}

/// Returns the known values of an option with this value name; empty if any value is allowed.
std::vector<std::string> value_choices(std::string_view value_name) {
  std::vector<std::string> choices;
  if (value_name.starts_with("SCHEDULE")) {
    for (const ScheduleGenerator& generator : schedule_generators()) {
      choices.emplace_back(generator.name);
    }
  } else if (value_name == "GPU") {
    for (const GpuModel& gpu : gpu_models()) choices.emplace_back(gpu.name);
  } else if (value_name.find('|') != std::string_view::npos) {
    while (!value_name.empty()) {
      const std::size_t bar = std::min(value_name.find('|'), value_name.size());
      choices.emplace_back(value_name.substr(0, bar));
      value_name.remove_prefix(std::min(bar + 1, value_name.size()));
    }
  }
  return choices;
}

bool takes_file(std::string_view value) {
  return value.find("FILE") != std::string_view::npos || value.ends_with(".json") ||
         value.ends_with(".toml");
}

/// Returns the shell command for values that only a running system knows; empty if there are none.
std::string words_command(const CLI::App& command, const OptionHelp& option) {
  std::string what;
  if (option.positional && option.value == "JOB") {
    what = full_name(command).starts_with("harpe batch-size") ? kRecurringJobs : kJobs;
  } else if (std::ranges::count(option.names, "--gpus") > 0) {
    what = kGpus;
  }
  // A server that hangs must not block a terminal.
  return what.empty() ? what : "timeout 2 harpe completion " + what + " 2>/dev/null";
}

/// Returns the words that may follow a command: its subcommands and options.
std::vector<std::string> words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* sub : subcommands(command)) words.push_back(sub->get_name());
  for (const OptionHelp& option : option_help(command)) {
    if (!option.positional) words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

std::string bash_script(const CLI::App& root) {
  std::vector<const CLI::App*> commands;
  walk(root, commands);
  std::string text =
      "# bash completion for harpe\n"
      "_harpe() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=harpe word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$command $word\" in\n";
  for (const CLI::App* command : commands) {
    if (command->get_parent() == nullptr) continue;
    text += "      '" + full_name(*command) + "') command='" + full_name(*command) + "' ;;\n";
  }
  text += "    esac\n  done\n  COMPREPLY=()\n  case \"$command $previous\" in\n";
  for (const CLI::App* command : commands) {
    for (const OptionHelp& option : option_help(*command)) {
      if (option.positional || option.value.empty()) continue;
      for (const std::string& name : option.names) {
        text += "    '" + full_name(*command) + ' ' + name + "') ";
        const std::vector<std::string> choices = value_choices(option.value);
        if (!choices.empty()) {
          text += "COMPREPLY=($(compgen -W '" + joined(choices, " ") + "' -- \"$current\"))";
          if (takes_file(option.value)) text += "; compopt -o default";
        } else if (const std::string live = words_command(*command, option); !live.empty()) {
          text += "COMPREPLY=($(compgen -W \"$(" + live + ")\" -- \"$current\"))";
        } else if (option.value == "DIR") {
          text += "COMPREPLY=($(compgen -d -- \"$current\"))";
        } else if (takes_file(option.value)) {
          text += "compopt -o default";
        } else {
          text += ':';
        }
        text += "; return ;;\n";
      }
    }
  }
  text += "  esac\n  case \"$command\" in\n";
  for (const CLI::App* command : commands) {
    std::vector<std::string> words = words_after(*command);
    bool files = false;
    std::string live;
    for (const OptionHelp& option : option_help(*command)) {
      if (!option.positional) continue;
      const std::vector<std::string> choices = value_choices(option.value);
      words.insert(words.end(), choices.begin(), choices.end());
      files = files || takes_file(option.value);
      if (const std::string one = words_command(*command, option); !one.empty()) {
        live = "\" $(" + one + ")\"";
      }
    }
    text += "    '" + full_name(*command) + "') COMPREPLY=($(compgen -W '" + joined(words, " ") +
            "'" + live + " -- \"$current\"))" + (files ? "; compopt -o default" : "") + " ;;\n";
  }
  return text + "  esac\n}\ncomplete -F _harpe harpe\n";
}

std::string zsh_value(const CLI::App& command, const OptionHelp& option) {
  const std::vector<std::string> choices = value_choices(option.value);
  const std::string live = words_command(command, option);
  std::string action = " ";
  if (!choices.empty()) {
    action = "(" + joined(choices, " ") + ")";
  } else if (!live.empty()) {
    action = "{compadd -- ${(f)\"$(" + live + ")\"}}";
  } else if (option.value == "DIR") {
    action = "_files -/";
  } else if (takes_file(option.value)) {
    action = "_files";
  }
  return ":" + plain(option.value) + ":" + action;
}

std::string function_name(const CLI::App& command) {
  std::string name = "_" + full_name(command);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string zsh_script(const CLI::App& root) {
  std::vector<const CLI::App*> commands;
  walk(root, commands);
  std::string text = "#compdef harpe\n";
  for (const CLI::App* command : commands) {
    const std::vector<const CLI::App*> below = subcommands(*command);
    text += "\n" + function_name(*command) + "() {\n  local state line\n  _arguments -C";
    int position = 0;
    for (const OptionHelp& option : option_help(*command)) {
      if (option.positional) {
        text += " \\\n    '" + std::to_string(++position) + zsh_value(*command, option) + "'";
        continue;
      }
      for (const std::string& name : option.names) {
        text += " \\\n    '" + name + "[" + plain(option.description) + "]" +
                (option.value.empty() ? "" : zsh_value(*command, option)) + "'";
      }
    }
    if (below.empty()) {
      text += "\n}\n";
      continue;
    }
    text += " \\\n    '1:command:((";
    for (const CLI::App* sub : below) {
      std::string what = plain(brief(*sub));
      std::string escaped;
      for (const char c : what) escaped += c == ' ' ? std::string("\\ ") : std::string(1, c);
      text += sub->get_name() + "\\:" + escaped + " ";
    }
    text +=
        "))' \\\n    '*::argument:->rest'\n  [[ $state == rest ]] || return\n  case $words[1] in\n";
    for (const CLI::App* sub : below) {
      text += "    " + sub->get_name() + ") " + function_name(*sub) + " ;;\n";
    }
    text += "  esac\n}\n";
  }
  return text + "\n_harpe \"$@\"\n";
}

std::string fish_condition(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "__fish_use_subcommand";
  std::string condition;
  for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent()) {
    condition = "__fish_seen_subcommand_from " + app->get_name() +
                (condition.empty() ? "" : "; and " + condition);
  }
  const std::vector<const CLI::App*> below = subcommands(command);
  if (below.empty()) return condition;
  condition += "; and not __fish_seen_subcommand_from";
  for (const CLI::App* sub : below) condition += " " + sub->get_name();
  return condition;
}

std::string fish_script(const CLI::App& root) {
  std::vector<const CLI::App*> commands;
  walk(root, commands);
  std::string text = "# fish completion for harpe\ncomplete -c harpe -f\n";
  for (const CLI::App* command : commands) {
    const std::string start = "complete -c harpe -n '" + fish_condition(*command) + "'";
    for (const CLI::App* sub : subcommands(*command)) {
      text += start + " -a " + sub->get_name() + " -d '" + plain(brief(*sub)) + "'\n";
    }
    for (const OptionHelp& option : option_help(*command)) {
      const std::vector<std::string> choices = value_choices(option.value);
      const std::string live = words_command(*command, option);
      const std::string offered = live.empty() ? joined(choices, " ") : "(" + live + ")";
      const std::string values = offered.empty() ? "" : " -a '" + offered + "'";
      if (option.positional) {
        text += start + values + (takes_file(option.value) ? " -F" : "") + "\n";
        continue;
      }
      text += start;
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      const bool file = takes_file(option.value) || option.value == "DIR";
      if (!option.value.empty()) text += (file ? " -r -F" : " -x") + values;
      text += " -d '" + plain(option.description) + "'\n";
    }
  }
  return text;
}

Result<std::string> completion_script(const CLI::App& root, std::string_view shell) {
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  if (shell == "fish") return fish_script(root);
  return Error::invalid("expected bash, zsh or fish, or what these ask for (" +
                        joined(completion_word_lists()) + "), found " + in_quotes(shell));
}

}  // namespace

void add_completion_command(Commands& commands) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& app = commands.add(
      commands.root(), "completion",
      "print a completion script for a shell\n"
      "An installation of Harpe puts these scripts where the shells look for them. The scripts "
      "also complete the jobs of the server (HARPE_SERVER) and the UUIDs of GPUs, which `harpe "
      "completion jobs`, `recurring-jobs` and `gpus` print.",
      "harpe completion bash > ~/.local/share/bash-completion/completions/harpe\n"
      "harpe completion fish > ~/.config/fish/completions/harpe.fish",
      [shell, &commands](Console&) -> Result<Outcome> {
        if (std::ranges::count(completion_word_lists(), *shell) > 0) {
          const std::vector<std::string> words = HARPE_TRY(completion_words(*shell));
          std::string text;
          for (const std::string& word : words) text += word + "\n";
          return Outcome{.text = text, .json = json_text({{"words", words}})};
        }
        add_commands_of_lab(commands.root());
        auto script = HARPE_TRY(completion_script(commands.root(), *shell));
        return Outcome{.text = script, .json = json_text({{"script", script}})};
      });
  add_argument(app, "SHELL", "Shell, or list of words to print", *shell,
               "bash|zsh|fish|jobs|recurring-jobs|gpus");
}

}  // namespace harpe::command
