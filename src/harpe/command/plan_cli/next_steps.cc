#include "harpe/command/plan_cli/next_steps.h"

#include <string>

#include "harpe/base/text.h"
#include "harpe/command/plan_cli/planning.h"

namespace harpe {
namespace {

/// Returns the command by which a job gets the objective; empty if jobs find it by themselves.
std::string objective_command(const Objective& objective, const std::string& job) {
  const std::string command = "harpe job objective " + job + ' ';
  const std::string value = shortest(objective.value);
  switch (objective.kind) {
    case Objective::Kind::kSlowdown:
      return objective.value > 0 ? command + "--slowdown " + shortest(100 * objective.value) + "%"
                                 : std::string();
    case Objective::Kind::kDeadline:
      return command + "--deadline " + value + "s";
    case Objective::Kind::kPowerCap:
      return command + "--power-cap " + value + "W    # of all pipelines together";
    case Objective::Kind::kLeastEnergy:
      return command + "--least-energy";
    case Objective::Kind::kStragglerFactor:
      return command + "--straggler " + value + "x";
    case Objective::Kind::kStragglerTime:
      return command + "--straggler " + value + "s";
  }
  return {};
}

}  // namespace

std::vector<ReportStep> next_steps(const PlanJob& job, const Planned& planned,
                                   const std::string& command) {
  const Plan& plan = planned.chosen;
  const std::string train =
      "torchrun --nproc_per_node " + std::to_string(plan.stages) + " train.py";
  const std::string name = "demo";
  std::vector<ReportStep> steps;
  if (plan.synthetic) {
    steps.push_back(
        {"The figures above are a model's. Measure the profile of your own training "
         "while it trains, without a server to set up:",
         "harpe profile measure -- " + train});
  }
  steps.push_back(
      {"Look first, with nothing set: work and waiting of each stage, slow GPUs, and the range of "
       "what plans would save. It takes a server and no agent:",
       "harpe serve    # in a terminal of its own\nexport HARPE_SERVER=http://127.0.0.1:7787 "
       "HARPE_JOB=" +
           name + "\nHARPE_OBSERVE=1 " + train + "\nharpe job show " + name});
  const std::string objective = objective_command(job.objective, name);
  steps.push_back(
      {"Train under plans, with an agent on each node (sudo harpe agent). A training does not read "
       "this plan: the job measures its own profile and plans for it.",
       train + (objective.empty() ? "" : '\n' + objective) + "\nharpe job watch " + name});
  if (!planned.cluster && !command.empty()) {
    steps.push_back({"What it is worth on a cluster, at its price and on its grid:",
                     command + " --pipelines 16 --price '0.10 EUR/kWh' --carbon DE --pue 1.2"});
  }
  return steps;
}

}  // namespace harpe
