#include "harpe/plan/frontier/predict.h"

#include <memory>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/given_latency.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/per_stage.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/command/plan_cli/premises.h"
#include "harpe/plan/frontier/profile_misfit.h"

namespace harpe::command {
namespace {

struct PredictArguments {
  std::string plan, profile;
  PredictOptions options;
  std::vector<Seconds> load, transfer_forward, transfer_backward;
  bool blocking_transfers = false;
  std::string switch_latency;  ///< empty for the table beside the profile, if any
};

/// Returns the options for this plan, whose stages and boundaries are known only now.
Result<PredictOptions> options_for(const Plan& plan, const PredictArguments& arguments,
                                   const LatencyByClock& latency) {
  PredictOptions options = arguments.options;
  options.switch_latency = latency;
  Diagnostics diagnostics;
  options.load = per_stage(arguments.load, plan.stages, "load", "stages", diagnostics);
  if (!arguments.transfer_forward.empty() || !arguments.transfer_backward.empty()) {
    const int boundaries = static_cast<int>(plan.placement.size()) - 1;
    const std::string what = "boundaries between model parts";
    Transfers transfers;
    transfers.mode =
        arguments.blocking_transfers ? Transfers::Mode::kRendezvous : Transfers::Mode::kOverlapped;
    transfers.forward =
        per_stage(arguments.transfer_forward, boundaries, "transfer-forward", what, diagnostics);
    transfers.backward =
        per_stage(arguments.transfer_backward, boundaries, "transfer-backward", what, diagnostics);
    options.transfers = std::move(transfers);
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return options;
}

Result<Outcome> run_predict(const PredictArguments& arguments, Console& console) {
  const Result<Plan> plan = given_plan(arguments.plan);
  const Result<Profile> profile = given_profile(arguments.profile, console);
  if (!plan.ok()) return plan.error();
  if (!profile.ok()) return profile.error();
  const GivenLatency latency =
      HARPE_TRY(arguments.switch_latency.empty() ? found_latency(arguments.profile)
                                                 : given_latency(arguments.switch_latency));
  const PredictOptions options = HARPE_TRY(options_for(*plan, arguments, latency.by_clock));
  if (const std::string misfit = plan::profile_misfit(*plan, *profile); !misfit.empty())
    return Error::invalid("the plan is not one of this profile: " + misfit);
  const Prediction found = HARPE_TRY(predict(*plan, *profile, options));

  const double time = found.iteration_time.value;
  const double energy = found.iteration_energy.value;
  const bool synthetic = plan->synthetic || profile->is_synthetic();
  const Json document = {{"synthetic", synthetic},
                         {"iteration_time_s", time},
                         {"iteration_energy_j", energy},
                         {"average_power_w", energy / time},
                         {"planned_time_s", plan->iteration_time.value},
                         {"planned_energy_j", plan->iteration_energy.value},
                         {"switch_latency_s", latency_json(latency.by_clock)},
                         {"latency_table", latency_table_json(latency)}};
  Table table = Table::of({"", "time s", "energy J", "power W"});
  const auto add = [&table](const std::string& name, double seconds, double joules) {
    table.add({name, fixed(seconds, 4), grouped(joules, 1), grouped(joules / seconds, 1)});
  };
  add("planned", plan->iteration_time.value, plan->iteration_energy.value);
  add("predicted", time, energy);
  const std::string lateness = latency_sentence(latency);
  return Outcome{.text = synthetic_line(synthetic, false) + table.text(false) +
                         (lateness.empty() ? "" : "\n" + lateness + "\n"),
                 .json = json_text(document)};
}

}  // namespace

void add_predict_command(Commands& commands) {
  const auto arguments = std::make_shared<PredictArguments>();
  CLI::App& app = commands.add(
      commands.root(), "predict",
      "predict time and energy of a plan on real GPUs\n"
      "Replays the plan with late clock changes: after a change, the beginning of an instruction "
      "still runs at the old clock. Transfers given here replace the transfers of the plan; "
      "loading times given here are added to the loading times of the plan.",
      "harpe predict plan/plan.json --profile gpt3.csv --switch-latency 10ms\n"
      "harpe predict plan/plan.json --profile bert.csv --switch-latency 5ms \\\n"
      "    --load 9.67ms,0,0,7.49ms --transfer-forward 0 --transfer-backward 0 \\\n"
      "    --transfer-mode rendezvous --fixed-extra 0.11",
      [arguments](Console& console) { return run_predict(*arguments, console); });
  add_argument(app, "PLAN", "Plan to replay (harpe.plan/1)", arguments->plan, "plan.json");
  add_text(app, "--profile", "FILE", "Measured profile (CSV)", arguments->profile)->required();
  add_text(
      app, "--switch-latency", "SECONDS|FILE",
      "Time until a new clock is in force, s, or a CSV file with this time for each new clock: "
      "frequency (MHz), latency (s) (default: PROFILE.latency.csv beside PROFILE.csv, else 0)",
      arguments->switch_latency);
  add_parsed(app, "--load", "SECONDS[,...]",
             "Data loading before every forward, s: one value, or one per stage", arguments->load,
             parse_seconds_list);
  add_parsed(app, "--transfer-forward", "SECONDS[,...]",
             "Transfer time of activations, s: one value, or one per boundary between model parts "
             "(default: as in the plan; 0 if --transfer-backward is given)",
             arguments->transfer_forward, parse_seconds_list);
  add_parsed(app, "--transfer-backward", "SECONDS[,...]",
             "Transfer time of gradients, s: one value, or one per boundary between model parts "
             "(default: as in the plan; 0 if --transfer-forward is given)",
             arguments->transfer_backward, parse_seconds_list);
  const auto mode = [](std::string_view text) -> Result<bool> {
    if (text == "overlapped") return false;
    if (text == "rendezvous") return true;
    return Error::invalid("expected overlapped or rendezvous, found " + in_quotes(text));
  };
  add_parsed(app, "--transfer-mode", "MODE",
             "Kind of transfer: overlapped occupies no stage, rendezvous occupies both (default "
             "overlapped)",
             arguments->blocking_transfers, mode);
  add_parsed(app, "--fixed-extra", "SECONDS",
             "Additional time of every iteration (optimizer, logging), s (default 0)",
             arguments->options.fixed_extra, parse_seconds);
}

}  // namespace harpe::command
