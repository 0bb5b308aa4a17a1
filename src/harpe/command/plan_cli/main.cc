// `harpe` with only the planning subcommands: it is built in a fraction of the time.

#include <memory>
#include <string>
#include <vector>

#include "harpe/command/plan_cli/plan_cli.h"

namespace {

constexpr const char* kPlansAlone =
    "this program has only the planning commands. For all commands, run cmake --build "
    "build/release --target harpe in the clone (./scripts/demo.sh run also does this), then "
    "build/release/src/harpe/command/cli/harpe; or install a package or the wheel "
    "(docs/install.md)";

}  // namespace

int main(int argc, char** argv) {
  harpe::command::Console console = harpe::command::Console::of_process();
  const auto planning = [] {
    auto commands = std::make_unique<harpe::command::Commands>(
        "harpe", std::string(harpe::command::kAboutHarpe) + "\n\nNote: " + kPlansAlone + ".",
        harpe::command::kHarpeExamples);
    harpe::command::add_planning_commands(*commands);
    commands->set_rest(kPlansAlone);
    return commands;
  };
  return harpe::command::run_program(planning, std::vector<std::string>(argv + 1, argv + argc),
                                     console);
}
