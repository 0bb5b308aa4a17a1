#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/find_program.h"

namespace harpe {

Error become_lab(const std::vector<std::string>& given) {
  Result<std::filesystem::path> found = find_program("harpe-lab", ProgramPlaces::of_process());
  if (!found.ok()) {
    Error error = found.error();
    error.diagnostics.push_back(
        {.message = "the experiments of `harpe lab` are a program of their own: install the "
                    "package harpe-lab (cmake --build BUILD --target harpe-lab builds it)"});
    return error;
  }
  std::vector<std::string> words{found->string()};
  words.insert(words.end(), std::next(given.begin()), given.end());
  return become(std::move(words));
}

/// Adds `lab` to the list of subcommands, the manual page and completion. `main` becomes the other
/// program before it reads options, so that the action runs only if it could not.
void add_lab_command(Commands& commands) {
  commands.add(
      commands.root(), kLab,
      "experiments: clusters that are emulated, published tables recomputed\n"
      "A program of its own, harpe-lab: operators never need it. `harpe lab --help` lists its "
      "subcommands.",
      "harpe lab --help\n"
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab reproduce sosp24 DIRECTORY",
      [](Console&) -> Result<Outcome> { return become_lab({kLab}); });
}

}  // namespace harpe
