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
           "Write the page (report.html), a picture and logs there; otherwise nothing is kept",
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
      "which exchange activations over sockets. The job profiles itself while it trains, gets its "
      "plan, meets a straggler and recovers, in about a minute and a half. Prints what the GPUs' "
      "own counters say beside what was predicted, and how to look on from another terminal. Needs "
      "Python 3.9 or later, and harpe-agent.",
      "harpe demo --out demo\n"
      "harpe demo carbon --out day",
      "End with 1 if time or energy is over 2 % off its prediction, or nothing was saved");
  add_demo(commands, demo, "carbon", "run_carbon_demo.py",
           "follow a grid's carbon intensity over a day of two minutes\n"
           "The same processes as harpe demo, and an invented grid whose hours take five seconds. "
           "The job has a number of iterations to do by a deadline: it runs fast while electricity "
           "is clean, slows down when it is not, and pauses when it is dirtiest. Prints what it "
           "emitted beside what the best steady pace would have.",
           "harpe demo carbon --out day",
           "End with 1 if the deadline is missed, it never pauses, or it emits no less than the "
           "best steady pace");
}

}  // namespace harpe::command
