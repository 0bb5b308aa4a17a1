#include <CLI/CLI.hpp>
#include <algorithm>

#include "harpe/command/command/command.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {
namespace {

/// The command with its options and subcommands. `value` is empty for a flag.
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
      "In roff, of the whole command or of one subcommand, from the same text as --help.",
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
