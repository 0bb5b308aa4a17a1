#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/job/job_state.h"

namespace harpe {
namespace {

/// To a tenth of a millisecond.
std::string rounded(Seconds time) {
  return shortest(std::round(time.value * 1e4) / 1e4) + " s";
}

/// Whether all ranks do the same by both.
bool same_orders(const Deployment& one, const Deployment& other) {
  if (one.purpose != other.purpose) return false;
  if (one.plans == other.plans) return one.choice == other.choice;
  if (one.choice.plan_of.size() != other.choice.plan_of.size()) return false;
  // Most pipelines run the same plan.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> known;
  for (std::size_t p = 0; p < one.choice.plan_of.size(); ++p) {
    const std::pair plan(one.choice.plan_of[p], other.choice.plan_of[p]);
    if (plan == known) continue;
    if (one.plans->plans()[plan.first].clocks != other.plans->plans()[plan.second].clocks)
      return false;
    known = plan;
  }
  return true;
}

}  // namespace

/// Iterations from the newest reported one to the first that can run by new orders on all ranks:
/// the one after it is under way, and a later one must begin no sooner than orders arrive.
int Job::State::lead() const {
  return lead_after(std::max(Seconds{0}, newest_event - newest_since));
}

/// Where the newest iteration has been under way for so long.
int Job::State::lead_after(Seconds under_way) const {
  constexpr double kMost = 1000;
  if (iteration_time <= Seconds{0}) return 2;
  return 1 + static_cast<int>(
                 std::clamp(std::ceil((under_way + delivery) / iteration_time), 1.0, kMost));
}

std::int64_t Job::State::next_from() const {
  return collector.newest() < 0 ? 0 : collector.newest() + lead();
}

void Job::State::deploy(Deployment deployment) {
  deployment.version = ++version;
  deployment.from = next_from();
  // Those that now never come into force, and those that no rank runs by any more.
  std::erase_if(deployments, [&](const Deployment& d) { return d.from >= deployment.from; });
  while (deployments.size() > 1 && deployments[1].from <= collector.newest() - 1)
    deployments.pop_front();
  while (deployments.size() > static_cast<std::size_t>(kMostPending)) deployments.pop_front();
  deployments.push_back(std::move(deployment));
  if (profiler) profiler->begin(version, deployments.back().from);
  effects.orders = effects.save = true;
}

void Job::State::deploy_full_speed() {
  Deployment deployment;
  deployment.purpose = StageOrders::Purpose::kFullSpeed;
  deployment.stage_clocks = highest_clocks();
  deploy(std::move(deployment));
}

void Job::State::deploy_profile() {
  Deployment deployment;
  deployment.purpose = StageOrders::Purpose::kProfile;
  deployment.stage_clocks = profiler->clocks();
  deploy(std::move(deployment));
}

/// The ranks are at other iterations than thought: what holds is to hold from now on.
void Job::State::deploy_again() {
  redeploy = false;
  last_profiling = std::min(last_profiling, std::max(std::int64_t{0}, collector.newest()));
  if (deployments.empty()) return;
  Deployment newest = deployments.back();
  deployments.clear();
  deploy(std::move(newest));
}

void Job::State::deploy_choice(Seconds now, const std::string& why) {
  if (!plans || phase == JobPhase::kRegistering || phase == JobPhase::kProfiling ||
      phase == JobPhase::kCharacterizing || rolled_back) {
    return;
  }
  const std::vector<Straggler> stragglers = all_stragglers();
  phase = stragglers.empty() ? JobPhase::kRunning : JobPhase::kStraggling;
  Deployment deployment;
  deployment.purpose = StageOrders::Purpose::kPlan;
  deployment.plans = plans;
  deployment.choice =
      choose_plans(*plans, wish, overhead.value_or(Seconds{0}), spec.shape.data, stragglers);
  if (!deployments.empty() && same_orders(deployments.back(), deployment)) {
    deployments.back().plans = deployment.plans;
    deployments.back().choice = std::move(deployment.choice);
    return;
  }
  drift.reset();
  std::string text = "plan of " + rounded(deployment.choice.wished);
  if (!stragglers.empty()) text = "plans to wait until " + rounded(deployment.choice.wait_until);
  tell(Notice::Level::kInfo, now, text + ": " + why);
  deploy(std::move(deployment));
}

const Deployment* Job::State::in_force(std::int64_t iteration) const {
  const Deployment* found = nullptr;
  for (const Deployment& deployment : deployments)
    if (deployment.from <= iteration) found = &deployment;
  return found;
}

const Deployment* Job::State::with_version(std::uint64_t wanted) const {
  const auto found = std::ranges::find(deployments, wanted, &Deployment::version);
  return found == deployments.end() ? nullptr : &*found;
}

StageOrders Job::State::orders(const Deployment& deployment, int pipeline_number, int stage) const {
  StageOrders orders{.version = deployment.version,
                     .from_iteration = deployment.from,
                     .purpose = deployment.purpose,
                     .clocks = {}};
  if (deployment.purpose == StageOrders::Purpose::kPlan) {
    const std::uint32_t plan = deployment.choice.plan_of[pipeline_number];
    orders.clocks = deployment.plans->plans()[plan].clocks[stage];
  } else {
    orders.clocks = {deployment.stage_clocks[stage]};
  }
  return orders;
}

/// What is told of a pipeline outweighs what was detected.
std::vector<Straggler> Job::State::all_stragglers() const {
  std::vector<Straggler> all = told;
  for (const Straggler& one : detected)
    if (std::ranges::find(told, one.pipeline, &Straggler::pipeline) == told.end())
      all.push_back(one);
  return all;
}

}  // namespace harpe
