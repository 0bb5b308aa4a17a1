#include <CLI/CLI.hpp>

#include "harpe/cli/cli.h"
#include "harpe/command/help.h"
#include "harpe/command/json_output.h"

namespace harpe {

void add_man_command(Commands& commands) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& app = commands.add(
      commands.root(), "man",
      "print a manual page\n"
      "In roff, of the whole command or of one subcommand, from the same text as --help.",
      "harpe man | man -l -\n"
      "harpe man schedule show > harpe-schedule-show.1",
      [words, &commands](Console&) -> Result<Outcome> {
        const auto command = HARPE_TRY(find_command(commands.root(), *words));
        const std::string page = man_page(*command);
        return Outcome{.text = page, .json = json_text({{"page", page}})};
      });
  app.add_option("SUBCOMMAND", *words, "The subcommand, such as plan or schedule show")
      ->type_name("SUBCOMMAND")
      ->group("Arguments");
}

}  // namespace harpe
