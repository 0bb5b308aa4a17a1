#include <algorithm>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/find_program.h"
#include "harpe/command/command/help.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

struct DemoArguments {
  std::string out;
  bool check = false;
};

/// Replaces this process by Python with `script`, so that signals and the exit status are the
/// demonstration's own.
Result<Outcome> become_demo(const std::string& script, const std::string& command,
                            const DemoArguments& arguments, bool json) {
  std::error_code unknown;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): never set
  const DemoParts parts =
      HARPE_TRY(find_demo_parts(script, own, path == nullptr ? "" : std::string_view(path)));
  std::vector<std::string> words{
      parts.python.string(), parts.script.string(), "--command",           command, "--harpe",
      own.string(),          "--trainer",           parts.trainer.string()};
  if (!arguments.out.empty()) words.insert(words.end(), {"--out", arguments.out});
  if (arguments.check) words.emplace_back("--check");
  if (json) words.emplace_back("--json");
  return become(parts.python, std::move(words));
}

CLI::App& add_demo(Commands& commands, CLI::App& parent, const std::string& name,
                   const std::string& script, const std::string& description,
                   const std::string& examples, const std::string& check) {
  const auto arguments = std::make_shared<DemoArguments>();
  const std::string command = full_name(parent) + " " + name;
  CLI::App& app = commands.add(
      parent, name, description, examples, [arguments, script, command, &commands](Console&) {
        const bool json = std::ranges::count(commands.arguments(), "--json") > 0;
        return become_demo(script, command, *arguments, json);
      });
  add_text(app, "--out", "DIRECTORY",
           "Folder for the page (report.html), a picture and logs (default: keep nothing)",
           arguments->out);
  app.add_flag("--check", arguments->check, check);
  return app;
}

}  // namespace

void add_demo_command(Commands& commands) {
  CLI::App& demo = add_demo(
      commands, commands.root(), "demo", "run_demo.py",
      "train under a plan on this machine, without a GPU\n"
      "Starts an agent on simulated GPUs, a server, and two pipelines of four processes each, "
      "which exchange activations over sockets. The job profiles itself during training, receives "
      "its plan, has a straggler and recovers, in about a minute and a half. Prints the figures "
      "of the GPUs' own counters beside the predictions, and how to watch from another terminal. "
      "Needs Python 3.9 or later, and harpe-agent.",
      "harpe demo --out demo\n"
      "harpe demo carbon --out day",
      "Exit with 1 if time or energy differs from its prediction by over 2 %, or nothing was "
      "saved");
  add_demo(commands, demo, "carbon", "run_carbon_demo.py",
           "follow a grid's carbon intensity over a day of two minutes\n"
           "Starts the same processes as harpe demo, with an invented grid whose hours take five "
           "seconds. The job must complete its iterations by a deadline: it runs fast while "
           "electricity is clean, slows down when electricity is dirty, and pauses when it is "
           "dirtiest. Prints the job's emissions beside the emissions of the best steady pace.",
           "harpe demo carbon --out day",
           "Exit with 1 if the job misses the deadline, never pauses, or emits no less than the "
           "best steady pace");
}

}  // namespace harpe::command
