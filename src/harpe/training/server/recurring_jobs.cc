#include "harpe/training/server/recurring_jobs.h"

#include <algorithm>
#include <random>

namespace harpe {

struct RecurringJobs::Incoming {
  std::string id;  ///< as it is hosted
  RecurringJob job;
  std::string client;
  std::function<void(Result<Registered>)> done;
};

RecurringJobs::RecurringJobs(Hosting& hosting, std::function<std::int64_t()> new_seed)
    : hosting_(hosting), new_seed_(std::move(new_seed)) {
  hosting_.restorer().add("harpe.batch-size/",
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
  const auto is_control = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; };
  return !job_id.empty() && job_id.size() <= kLongest && std::ranges::none_of(job_id, is_control);
}

RecurringJobPtr RecurringJobs::find(const std::string& job_id) const {
  return std::dynamic_pointer_cast<HostedRecurringJob>(hosting_.find(hosted_id(job_id)));
}

void RecurringJobs::put(RecurringJob job, const std::string& client,
                        std::function<void(Result<Registered>)> done) {
  std::string id = hosted_id(job.id);
  put(std::make_shared<Incoming>(Incoming{
      .id = std::move(id), .job = std::move(job), .client = client, .done = std::move(done)}));
}

void RecurringJobs::put(const IncomingPtr& incoming) {
  const std::string& id = incoming->id;
  const auto again = [this, incoming](const Result<bool>&) { put(incoming); };
  if (hosting_.removals().wait(id, again)) return;
  if (const RecurringJobPtr known = find(incoming->job.id)) {
    if (known->job() == incoming->job) return incoming->done(Registered{.job = known});
    return incoming->done(Error::of(ErrorCode::kConflict, "there is a job " + incoming->job.id +
                                                              " with other parameters; its results "
                                                              "would not count for these"));
  }
  if (hosting_.holds(id)) {
    return hosting_.load(id, [this, incoming](const Result<HostedPtr>& loaded) {
      loaded.ok() ? put(incoming) : incoming->done(loaded.error());
    });
  }
  // On a worker's thread, which may outlast this: claims are made in the store.
  hosting_.aside(id, [this, incoming, &hosting = hosting_]() -> std::function<void()> {
    return [this, incoming, claim = hosting.claim(incoming->id)] { take(incoming, claim); };
  });
}

void RecurringJobs::take(const IncomingPtr& incoming,
                         const Result<std::optional<JobClaim>>& claim) {
  if (!claim.ok()) return incoming->done(claim.error());
  if (!*claim) return incoming->done(Registered{});
  // It was registered, or is being removed, since it was looked for.
  if (hosting_.removals().are_under_way(incoming->id) || hosting_.holds(incoming->id)) {
    return put(incoming);
  }
  BatchSizeOptimizer optimizer(incoming->job,
                               {.seed = incoming->job.seed ? *incoming->job.seed : new_seed_()},
                               hosting_.now());
  const auto job = std::make_shared<HostedRecurringJob>(incoming->job.id, std::move(optimizer));
  if (Status room = hosting_.make_room(job->memory(), incoming->client); !room.ok()) {
    hosting_.release(incoming->id);
    return incoming->done(room.error());
  }
  job->claim = **claim;
  job->client = incoming->client;
  hosting_.add(job);
  incoming->done(Registered{.job = job, .created = true});
}

}  // namespace harpe
