#include "harpe/plan/profile/synth.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/plan_cli.h"

namespace harpe::command {
namespace {

struct SynthArguments {
  std::string gpu = "a100-sxm";
  std::string out;
  SynthOptions options;
  bool list = false;
};

Outcome list_gpus(Console& console) {
  Table table = Table::of({"name", "clocks MHz", "limit W", "waiting W", "constants"}, 5);
  Json list = Json::array();
  for (const GpuModel& gpu : gpu_models()) {
    table.add({std::string(gpu.name),
               std::to_string(gpu.min_clock.value) + ".." + std::to_string(gpu.max_clock.value),
               shortest(gpu.power_limit.value), shortest(gpu.blocking_power.value),
               std::string(gpu.description)});
    list.push_back({{"name", gpu.name},
                    {"description", gpu.description},
                    {"min_clock_mhz", gpu.min_clock.value},
                    {"max_clock_mhz", gpu.max_clock.value},
                    {"power_limit_w", gpu.power_limit.value},
                    {"blocking_power_w", gpu.blocking_power.value}});
  }
  return {.text = table.text(console.colour_out), .json = json_text({{"gpus", std::move(list)}})};
}

std::string comment(const SynthArguments& arguments) {
  const SynthOptions& options = arguments.options;
  return "harpe synth --gpu " + arguments.gpu + " --stages " + std::to_string(options.stages) +
         " --chunks " + std::to_string(options.chunks) + " --forward-time " +
         shortest(options.forward_seconds) + " --imbalance " + shortest(options.imbalance) +
         " --noise " + shortest(100 * options.noise) + "% --seed " + std::to_string(options.seed) +
         (options.split_backward ? " --split-backward" : "") +
         (options.recompute ? " --recompute" : "");
}

/// Fails if the file exists and is not a synthetic profile: a measured one may have taken a day.
Status spare_measured(const std::filesystem::path& out) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(out, error)) return ok_status();
  const Result<Profile> there = read_profile(out);
  if (there.ok() && there->is_synthetic()) return ok_status();
  return Error::invalid(out.string() +
                        " exists and is not a synthetic profile, so it is not overwritten; give "
                        "another file with --out");
}

Result<Outcome> run_synth(SynthArguments arguments, Console& console) {
  if (arguments.list) return list_gpus(console);
  arguments.options.gpu = arguments.gpu;
  const Profile profile = HARPE_TRY(synthesize(arguments.options));
  const std::string csv = profile_csv(profile, comment(arguments));
  if (arguments.out.empty()) {
    return Outcome{.text = csv, .json = json_text({{"profile", csv}})};
  }
  HARPE_TRY(spare_measured(arguments.out));
  HARPE_TRY(write_file(arguments.out, csv));
  return Outcome{.text = "written: " + arguments.out + "\n",
                 .json = json_text({{"files", {arguments.out}}})};
}

Result<double> parse_imbalance(std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value < 1) {
    return Error::invalid("expected a ratio of at least 1, found " + in_quotes(text));
  }
  return *value;
}

Result<std::uint64_t> parse_seed(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value < 0) {
    return Error::invalid("expected a whole number, found " + in_quotes(text));
  }
  return static_cast<std::uint64_t>(*value);
}

}  // namespace

void add_synth_command(Commands& commands) {
  const auto arguments = std::make_shared<SynthArguments>();
  SynthOptions& options = arguments->options;
  CLI::App& app = commands.add(
      commands.root(), "synth",
      "make a profile from an analytic GPU model\n"
      "Use such a profile to try Harpe without measurements. Plans for real GPUs need measured "
      "profiles. docs/gpu-models.md names the sources of the models' constants.",
      "harpe synth --out profile.csv\n"
      "harpe synth --gpu h100-sxm --stages 16 --imbalance 1.2 --seed 7 --out h100.csv\n"
      "harpe synth --list",
      [arguments](Console& console) { return run_synth(*arguments, console); });
  const auto stages = count_within(1, 100'000);
  add_text(app, "--gpu", "GPU", "GPU model (default a100-sxm; see --list)", arguments->gpu);
  add_parsed(app, "--stages", "N", "Pipeline stages (default 8)", options.stages, stages);
  add_parsed(app, "--chunks", "V", "Model chunks per stage (default 1)", options.chunks, stages);
  add_parsed(app, "--forward-time", "SECONDS",
             "Forward time of an average stage at maximum clock, s (default 0.05)",
             options.forward_seconds, [](std::string_view text) -> Result<double> {
               const Seconds time = HARPE_TRY(parse_seconds(text));
               return time.value;
             });
  add_parsed(app, "--imbalance", "RATIO", "Ratio of longest to shortest stage (default 1.1)",
             options.imbalance, parse_imbalance);
  add_parsed(app, "--noise", "PERCENT",
             "Standard deviation of measured time and energy, % (default 0.2)", options.noise,
             [](std::string_view text) -> Result<double> {
               const double percent = HARPE_TRY(parse_percent(text));
               if (percent <= 10) return percent / 100;
               return Error::invalid("expected at most 10%, found " + in_quotes(text));
             });
  add_parsed(app, "--seed", "N", "Seed of the noise (default 1)", options.seed, parse_seed);
  app.add_flag("--split-backward", options.split_backward,
               "Split the backward into input gradient and weight gradient");
  app.add_flag("--recompute", options.recompute, "Add recompute rows");
  app.add_flag("--list", arguments->list, "List the GPU models");
  add_text(app, "--out", "FILE", "Output file (default: standard output)", arguments->out);
}

}  // namespace harpe::command
