#include <CLI/CLI.hpp>
#include <algorithm>

#include "harpe/command/command/command.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/json_output.h"

namespace harpe {

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
        return Outcome{.text = page, .json = json_text({{"page", page}})};
      });
  app.add_option("SUBCOMMAND", *words, "The subcommand, such as " + example)
      ->type_name("SUBCOMMAND")
      ->group("Arguments");
}

}  // namespace harpe
