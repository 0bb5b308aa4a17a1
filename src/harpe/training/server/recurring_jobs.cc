#include "harpe/training/server/recurring_jobs.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"

namespace harpe::training {
namespace {

std::string name_of(const zeus::Trial& trial) {
  return "trial " + std::to_string(trial.number) + " (batch size " +
         std::to_string(trial.batch_size) + ")";
}

std::string end_text(const zeus::Trial& trial, const zeus::TrialVerdict& verdict) {
  const std::string cost = " at a cost of " + shortest(std::round(verdict.cost)) + " J";
  switch (verdict.reason) {
    case zeus::TrialVerdict::Reason::kReached:
      return name_of(trial) + " reached its target" + cost;
    case zeus::TrialVerdict::Reason::kTooCostly:
      return name_of(trial) + " was stopped" + cost + ", above its bound of " +
             shortest(std::round(verdict.bound)) + " J";
    case zeus::TrialVerdict::Reason::kWillNotReach:
      return name_of(trial) + " was stopped after " + std::to_string(trial.epochs) + " epochs," +
             cost + ": by its metric so far it will not reach its target within the " +
             std::to_string(verdict.last_epoch) + " epochs allowed";
    default:
      return name_of(trial) + " did not reach its target in " + std::to_string(trial.epochs) +
             " epochs," + cost;
  }
}

}  // namespace

HostedRecurringJob::HostedRecurringJob(const std::string& job_id,
                                       zeus::BatchSizeOptimizer optimizer)
    : Hosted(std::string(kRecurringIds) + job_id), optimizer_(std::move(optimizer)) {
  effects_.save = true;
}

Result<HostedPtr> HostedRecurringJob::read(const StoredJob& stored) {
  zeus::BatchSizeOptimizer optimizer = HARPE_TRY(zeus::parse_batch_size_optimizer(stored.state));
  const std::string job_id = optimizer.job().id;
  auto job = std::make_shared<HostedRecurringJob>(job_id, std::move(optimizer));
  if (job->id != stored.id) {
    return Error::invalid("what is stored of " + stored.id + " is of " + job->id);
  }
  job->effects_.save = false;
  job->asleep_ = true;
  return HostedPtr(std::move(job));
}

void HostedRecurringJob::note(const char* kind, std::string text, Seconds now) {
  effects_.events.push_back({kind, std::move(text), now});
  effects_.save = effects_.changed = true;
}

Result<zeus::BatchSizeOptimizer::Given> HostedRecurringJob::next(Seconds now) {
  while (!not_given_.empty()) {
    zeus::BatchSizeOptimizer::Given again = std::move(not_given_.front());
    not_given_.pop_front();
    Result<zeus::Trial> begun = optimizer_.begin_again(again.trial.number, now);
    if (!begun.ok()) continue;
    again.trial = *std::move(begun);
    note("info", name_of(again.trial) + " begins: " + again.why, now);
    return again;
  }
  Result<zeus::BatchSizeOptimizer::Given> given = optimizer_.next(now);
  if (given.ok()) {
    note("info", name_of(given->trial) + " begins: " + given->why, now);
  } else {
    note("warning", given.error().text(), now);
  }
  return given;
}

Result<zeus::TrialVerdict> HostedRecurringJob::report(const zeus::TrialReport& report,
                                                      Seconds now) {
  Result<zeus::TrialVerdict> verdict = optimizer_.report(report, now);
  if (!verdict.ok() && verdict.error().code == ErrorCode::kInvalidInput) {
    // A repeated report is logged once.
    std::string refusal = "a report of trial " + std::to_string(report.trial) +
                          " was refused: " + verdict.error().text();
    if (refusal != refusal_) note("warning", refusal_ = std::move(refusal), now);
  }
  if (!verdict.ok() || verdict->reason == zeus::TrialVerdict::Reason::kReported) return verdict;
  effects_.save = effects_.changed = true;
  if (verdict->stop) note("info", end_text(*optimizer_.find(report.trial), *verdict), now);
  return verdict;
}

Status HostedRecurringJob::give_up(int trial, int batch_size, Seconds now) {
  HARPE_TRY(optimizer_.give_up(trial, batch_size, now));
  const zeus::Trial& given_up = *optimizer_.find(trial);
  if (given_up.status == zeus::Trial::Status::kFailed) {
    note("info", name_of(given_up) + " was abandoned", now);
  }
  return ok_status();
}

Status HostedRecurringJob::retract(int trial, Seconds now) {
  const zeus::Trial* known = optimizer_.find(trial);
  const bool had_result = known != nullptr && known->has_result();
  const bool was_running = known != nullptr && known->status == zeus::Trial::Status::kDispatched;
  const std::vector<int> others = HARPE_TRY(optimizer_.retract(trial, now));
  if (was_running) {
    note("info", name_of(*optimizer_.find(trial)) + " was retracted while it ran", now);
  }
  if (!had_result) return ok_status();
  std::string text =
      name_of(*optimizer_.find(trial)) + " was retracted: its result no longer counts";
  for (const int other : others) {
    text += (other == others.front() ? "; nor do the results of trials that it stopped: " : ", ") +
            std::to_string(other);
  }
  note("info", std::move(text), now);
  return ok_status();
}

Status HostedRecurringJob::not_given(const zeus::BatchSizeOptimizer::Given& given, Seconds now) {
  constexpr std::size_t kMostNotGiven = 100;
  HARPE_TRY(give_up(given.trial.number, given.trial.batch_size, now));
  if (not_given_.size() < kMostNotGiven) not_given_.push_back(given);
  return ok_status();
}

HostedTexts HostedRecurringJob::take_texts() {
  return {.state = zeus::batch_size_optimizer_json(optimizer_)};
}

std::string HostedRecurringJob::summary_text() const {
  const zeus::Trial* cheapest = optimizer_.cheapest();
  const auto running = std::ranges::count(optimizer_.trials(), zeus::Trial::Status::kDispatched,
                                          &zeus::Trial::status);
  std::string text = "\"gpu_model\":" + json_line(nlohmann::ordered_json(job().gpu_model));
  text += ",\"batch_sizes\":" + std::to_string(job().batch_sizes.size());
  text += ",\"trials\":" + std::to_string(optimizer_.newest());
  text += ",\"running\":" + std::to_string(running);
  text += ",\"cheapest_batch_size\":" +
          (cheapest == nullptr ? "null" : std::to_string(cheapest->batch_size));
  text += ",\"least_cost_j\":" +
          (cheapest == nullptr ? "null" : shortest(job().cost(cheapest->energy, cheapest->time)));
  return text;
}

std::size_t HostedRecurringJob::memory() const {
  constexpr std::size_t kBesideTrials = 4096;
  std::size_t points = 0;
  for (const zeus::Trial& trial : optimizer_.trials()) points += trial.metrics.points().size();
  return kBesideTrials + optimizer_.trials().size() * sizeof(zeus::Trial) +
         points * sizeof(zeus::MetricPoint);
}

void HostedRecurringJob::tick(Seconds now) {
  for (const int trial : optimizer_.expire(now)) {
    note("warning",
         name_of(*optimizer_.find(trial)) +
             " has sent nothing for longer than its lease; it counts as failed unless it reports "
             "again",
         now);
  }
}

struct RecurringJobs::Incoming {
  std::string id;  ///< as used by `Hosting`
  zeus::RecurringJob job;
  std::string client;
  std::function<void(Result<Registered>)> done;
};

RecurringJobs::RecurringJobs(Hosting& hosting, std::function<std::int64_t()> new_seed)
    : hosting_(hosting), new_seed_(std::move(new_seed)) {
  hosting_.memory().restorer().add("harpe.batch-size/",
                                   [](Store& /*store*/, const StoredJob& stored, Seconds /*at*/) {
                                     return HostedRecurringJob::read(stored);
                                   });
}

std::int64_t RecurringJobs::random_seed() {
  std::random_device random;
  return static_cast<std::int64_t>(random());
}

bool RecurringJobs::is_id(std::string_view job_id) {
  constexpr std::size_t kLongest = 128;
  return !job_id.empty() && job_id.size() <= kLongest && std::ranges::none_of(job_id, is_control);
}

RecurringJobPtr RecurringJobs::find(const std::string& job_id) const {
  return std::dynamic_pointer_cast<HostedRecurringJob>(hosting_.table().find(hosted_id(job_id)));
}

void RecurringJobs::put(zeus::RecurringJob job, const std::string& client,
                        std::function<void(Result<Registered>)> done) {
  std::string id = hosted_id(job.id);
  put(std::make_shared<Incoming>(Incoming{
      .id = std::move(id), .job = std::move(job), .client = client, .done = std::move(done)}));
}

void RecurringJobs::put(const IncomingPtr& incoming) {
  const std::string& id = incoming->id;
  const auto again = [this, incoming](const Result<bool>&) { put(incoming); };
  if (hosting_.claims().removals().wait(id, again)) return;
  if (const RecurringJobPtr known = find(incoming->job.id)) {
    if (known->job() == incoming->job) return incoming->done(Registered{.job = known});
    return incoming->done(Error::of(
        ErrorCode::kConflict, "there is a job " + incoming->job.id +
                                  " with other parameters; its results do not apply to these"));
  }
  if (hosting_.table().holds(id)) {
    return hosting_.memory().load(id, [this, incoming](const Result<HostedPtr>& loaded) {
      loaded.ok() ? put(incoming) : incoming->done(loaded.error());
    });
  }
  // The store makes claims, so on a worker's thread, which may outlast this object.
  hosting_.readers().run(id, [this, incoming, &hosting = hosting_]() -> std::function<void()> {
    return
        [this, incoming, claim = hosting.claims().claim(incoming->id)] { take(incoming, claim); };
  });
}

void RecurringJobs::take(const IncomingPtr& incoming,
                         const Result<std::optional<JobClaim>>& claim) {
  if (!claim.ok()) return incoming->done(claim.error());
  if (!*claim) return incoming->done(Registered{});
  // The job was registered, or is being removed, since the look-up.
  if (hosting_.claims().removals().are_under_way(incoming->id) ||
      hosting_.table().holds(incoming->id)) {
    return put(incoming);
  }
  zeus::BatchSizeOptimizer optimizer(
      incoming->job, {.seed = incoming->job.seed ? *incoming->job.seed : new_seed_()},
      hosting_.time().now());
  const auto job = std::make_shared<HostedRecurringJob>(incoming->job.id, std::move(optimizer));
  if (Status room = hosting_.memory().make_room(job->memory(), incoming->client); !room.ok()) {
    hosting_.claims().release(incoming->id);
    return incoming->done(room.error());
  }
  job->claim = **claim;
  job->client = incoming->client;
  hosting_.jobs().add(job);
  incoming->done(Registered{.job = job, .created = true});
}

}  // namespace harpe::training
