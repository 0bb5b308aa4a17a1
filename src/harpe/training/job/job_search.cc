// A better plan for the objective, found in the background while the job trains.

#include <memory>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/search_course.h"

namespace harpe::training {

/// Whether the plan for just the objective is in force, or soon is again, and may not be the best.
/// Plans for stragglers hold for a while only, and under a minimum dwell there is no such search.
bool Job::State::may_search() const {
  if (running() == nullptr || running()->straggling || retry_at || ended) return false;
  if (plans_due || objective_ticket != 0 || spec.min_dwell > Seconds{0}) return false;
  return has_objective_plan() && plans->for_objective().has_value();
}

std::uint64_t Job::search_ticket() const {
  return state_->may_search() ? state_->search_ticket : 0;
}

CharacterizeRequest Job::search_request() const {
  CharacterizeRequest request = state_->plans_request();
  request.ticket = state_->search_ticket;
  // The very one that the plan there is was made for: what iterations take has moved since.
  if (state_->plans) request.objective = state_->plans->objective();
  request.only_objective = true;
  return request;
}

bool Job::found_better(std::uint64_t ticket, std::shared_ptr<const plan::PlanTable> better,
                       Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  if (ticket == 0 || ticket != search_ticket() || !s.fits(*better)) return false;
  const double gain = plan::objective_gain(*s.plans, *better);
  if (gain < SearchCourse::kWorthwhile) return false;
  s.plans = std::move(better);
  s.effects.plans = s.effects.save = true;
  s.deploy_choice(now, "a search has found it; it takes " + shortest(gain * 100, 3) +
                           " % less energy than the one before");
  return true;
}

}  // namespace harpe::training
