#include "harpe/frontier/predict.h"

#include <memory>

#include "harpe/base/text.h"
#include "harpe/cli/command.h"
#include "harpe/cli/json_output.h"
#include "harpe/cli/options.h"
#include "harpe/cli/quantity_text.h"
#include "harpe/cli/table.h"

namespace harpe {
namespace {

struct PredictArguments {
  std::string plan, profile;
  PredictOptions options;
};

Result<Outcome> run_predict(const PredictArguments& arguments) {
  const Result<Plan> plan = read_plan(arguments.plan);
  const Result<Profile> profile = read_profile(arguments.profile);
  if (!plan.ok()) return plan.error();
  if (!profile.ok()) return profile.error();
  const Result<Prediction> found = predict(*plan, *profile, arguments.options);
  if (!found.ok()) return found.error();

  const double time = found->iteration_time.value;
  const double energy = found->iteration_energy.value;
  const Json document = {{"iteration_time_s", time},
                         {"iteration_energy_j", energy},
                         {"average_power_w", energy / time},
                         {"planned_time_s", plan->iteration_time.value},
                         {"planned_energy_j", plan->iteration_energy.value}};
  Table table{.rows = {{"", "time s", "energy J", "power W"}}};
  const auto add = [&table](const std::string& name, double seconds, double joules) {
    table.rows.push_back(
        {name, fixed(seconds, 4), grouped(joules, 1), grouped(joules / seconds, 1)});
  };
  add("planned", plan->iteration_time.value, plan->iteration_energy.value);
  add("predicted", time, energy);
  return Outcome{.text = table.text(false), .json = json_text(document)};
}

}  // namespace

void add_predict_command(Commands& commands) {
  const auto arguments = std::make_shared<PredictArguments>();
  CLI::App& app = commands.add(
      commands.root(), "predict",
      "predict what a plan takes on real GPUs\n"
      "Replays the plan with late clock changes: the first moments of an instruction after a "
      "change "
      "still run at the old clock. Transfers and loading are those of the plan.",
      "harpe predict plan/plan.json --profile gpt3.csv --switch-latency 10ms\n"
      "harpe predict plan/plan.json --profile bert.csv --switch-latency 5ms \\\n"
      "    --fixed-extra 0.11",
      [arguments](Console&) { return run_predict(*arguments); });
  app.add_option("PLAN", arguments->plan, "Plan to replay (harpe.plan/1)")
      ->type_name("plan.json")
      ->required()
      ->group("Arguments");
  add_text(app, "--profile", "FILE", "Measured profile (CSV)", arguments->profile)->required();
  add_parsed(app, "--switch-latency", "SECONDS",
             "Time until a new clock is in force, s (default 0)", arguments->options.switch_latency,
             parse_seconds);
  add_parsed(app, "--fixed-extra", "SECONDS",
             "Time every iteration takes on top (optimizer, logging), s (default 0)",
             arguments->options.fixed_extra, parse_seconds);
}

}  // namespace harpe
