#include "harpe/server/job_registry.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "harpe/job/job_size.h"
#include "harpe/server/digest.h"
#include "harpe/server/job_summary.h"
#include "harpe/wire/wire.h"

namespace harpe {
namespace {

/// Bodies of specifications of which it is known what they say: ranks may each say it in other
/// words.
constexpr std::size_t kKnownBodies = 8;
/// A body of this size is read, and its digest made, in a moment.
constexpr std::size_t kSmallBody = 64 * 1024;
constexpr std::size_t kRemovedAtOnce = 50;

Error deleted() {
  return Error::of(ErrorCode::kNotFound, "the job was deleted");
}

}  // namespace

std::string JobRegistry::random_incarnation() {
  std::random_device random;
  std::string text;
  while (text.size() < 16) text += static_cast<char>('a' + random() % 26);
  return text;
}

JobRegistry::JobRegistry(Loop& loop, Clock& clock, Store* store, Options options,
                         std::function<void(const std::string&)> log)
    : clock_(clock),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      time_(options_.clocks, kept_clock(store, log_)),
      lease_(store == nullptr ? LeaseState() : store->lease()),
      refreshed_(clock.now()),
      work_(loop),
      saver_({.loop = loop,
              .clock = clock,
              .time = time_,
              .store = store,
              .log = log_,
              .make_workers = options_.make_workers,
              .summary = [this](const HostedJob& job) { return summary_of(job); },
              .lost = [this](const std::string& id, std::int64_t epoch) { lose(id, epoch); }}),
      planner_(loop, options_.workers, options_.make_workers,
               [this](const JobPtr& job, std::uint64_t ticket, const Result<PlanTable>& plans,
                      const std::string& json,
                      bool better_follow) { deliver(job, ticket, plans, json, better_follow); }),
      readers_(options_.make_workers({.threads = 3, .for_small = 1})),
      verifier_(options_.make_workers({.threads = 1, .nice = 10})) {}

JobRegistry::~JobRegistry() {
  for (const auto& [id, job] : jobs_) {
    planner_.cancel(job);
    if (job->touched || !job->saving.revisions.is_stored()) save(job);
    refresh_summary(*job);
  }
}

std::optional<ClockMark> JobRegistry::kept_clock(
    Store* store, const std::function<void(const std::string&)>& log) {
  if (store == nullptr) return std::nullopt;
  const Result<std::optional<ClockMark>> kept = store->clock();
  if (kept.ok()) return *kept;
  log("the store's clock cannot be read, so it begins anew: " + kept.error().text());
  return std::nullopt;
}

Status JobRegistry::restore() {
  if (store_ == nullptr) return ok_status();
  std::vector<JobSummary> summaries = HARPE_TRY(store_->summaries());
  for (JobSummary& summary : summaries) {
    const std::optional<JobClaim> claim = HARPE_TRY(store_->claim(summary.job));
    if (claim) {
      take_up(std::move(summary), *claim);
    } else {
      log_("job " + summary.job + " is another server's");
    }
  }
  return ok_status();
}

void JobRegistry::add(const JobPtr& job) {
  job->told_phase = job->job.phase();
  job->used = clock_.now();
  measure(job);
  stored_.erase(job->id);
  jobs_.insert_or_assign(job->id, job);
  follow(job);
}

/// Of a job that is new in memory, or has another specification than before.
void JobRegistry::measure(const JobPtr& job) {
  memory_ -= job->memory;
  job->memory = memory_of(job->job.spec());
  memory_ += job->memory;
  job->specification = job->job.specification();
}

JobPtr JobRegistry::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

// --- Registering --------------------------------------------------------------------------------

/// A specification on its way in.
struct JobRegistry::Incoming {
  std::string id, body;
  std::function<void(Result<Registered>)> done;
  std::string incarnation;  ///< if it becomes a job
  bool is_new = true;       ///< no job of this id is here
  /// Digests of bodies that were read before, to what they say.
  std::map<std::string, std::string> known = {};

  // What it is read to, on a worker's thread.
  std::string digest = {}, specification = {};
  std::optional<Result<Job>> job = {};  ///< none: `known` has it
  bool is_elsewhere = false;            ///< another server has claimed the id
  std::optional<JobClaim> claim = {};   ///< where it is new
};

void JobRegistry::put(const std::string& id, std::string specification,
                      std::function<void(Result<Registered>)> done) {
  put(std::make_shared<Incoming>(Incoming{.id = id,
                                          .body = std::move(specification),
                                          .done = std::move(done),
                                          .incarnation = options_.new_incarnation()}));
}

void JobRegistry::put(const IncomingPtr& incoming) {
  const std::string& id = incoming->id;
  if (const auto removal = removals_.find(id); removal != removals_.end()) {
    removal->second.emplace_back([this, incoming](const Result<bool>&) { put(incoming); });
    return;
  }
  const JobPtr known = find(id);
  if (known == nullptr && stored_.contains(id)) {
    return load(id, [this, incoming](const Result<JobPtr>& job) {
      job.ok() ? put(incoming) : incoming->done(job.error());
    });
  }
  incoming->is_new = known == nullptr;
  if (known != nullptr) incoming->known = known->known_bodies;
  const auto read_and_take = [this, incoming] {
    read(*incoming);
    work_.post([this, incoming] { take(incoming); });
  };
  if (incoming->body.size() > kSmallBody) {
    return readers_->run(id, read_and_take, Workers::Size::kLarge);
  }
  incoming->digest = digest_of(incoming->body);
  if (incoming->known.contains(incoming->digest)) {
    incoming->specification = incoming->known.at(incoming->digest);
    return propose(known, incoming);
  }
  readers_->run(id, [this, incoming, read_and_take] {
    // A few words can ask for a schedule of a hundred thousand instructions.
    if (declared_instructions(incoming->body) < JobPlanner::kLarge) return read_and_take();
    readers_->run(incoming->id, read_and_take, Workers::Size::kLarge);
  });
}

void JobRegistry::read(Incoming& incoming) const {
  incoming.job.reset();
  incoming.digest = digest_of(incoming.body);
  if (const auto known = incoming.known.find(incoming.digest); known != incoming.known.end()) {
    incoming.specification = known->second;
    return;
  }
  Result<JobSpec> spec = parse_job_spec(incoming.body);
  if (!spec.ok()) {
    incoming.job = spec.error();
    return;
  }
  incoming.job = Job::create(*std::move(spec), now(), incoming.incarnation);
  if (!incoming.job->ok()) return;
  incoming.specification = (*incoming.job)->specification();
  if (!incoming.is_new) return;
  incoming.claim = JobClaim{.epoch = 1};
  if (store_ == nullptr) return;
  const Result<std::optional<JobClaim>> claim = store_->claim(incoming.id);
  if (!claim.ok()) {
    incoming.job = claim.error();
  } else {
    incoming.claim = *claim;
    incoming.is_elsewhere = !claim->has_value();
  }
}

void JobRegistry::take(const IncomingPtr& incoming) {
  if (incoming->job && !incoming->job->ok()) return incoming->done(incoming->job->error());
  if (incoming->is_elsewhere) return incoming->done(Registered{});
  const JobPtr known = find(incoming->id);
  // It has left memory, or is being removed, since this was read.
  if (removals_.contains(incoming->id) ||
      (known == nullptr && (!incoming->claim || stored_.contains(incoming->id)))) {
    return put(incoming);
  }
  if (known != nullptr) return propose(known, incoming);
  if (Status room = make_room(memory_of((*incoming->job)->spec())); !room.ok()) {
    if (store_ != nullptr) {
      aside(incoming->id, [this, id = incoming->id] {
        static_cast<void>(store_->release(id));
        return [] {};
      });
    }
    return incoming->done(room.error());
  }
  const auto job = std::make_shared<HostedJob>(incoming->id, *std::move(*incoming->job));
  job->claim = *incoming->claim;
  job->known_bodies.emplace(incoming->digest, incoming->specification);
  add(job);
  incoming->done(Registered{.job = job, .created = true, .specification = incoming->specification});
}

/// To a job that is in memory.
void JobRegistry::propose(const JobPtr& job, const IncomingPtr& incoming) {
  const std::string& specification = incoming->specification;
  if (incoming->job && specification != job->job.specification()) {
    Status room = make_room(memory_of((*incoming->job)->spec()));
    if (!room.ok()) return incoming->done(room.error());
  }
  std::optional<Job::Proposed> proposed = Job::Proposed::kSame;
  if (specification != job->job.specification()) {
    proposed = act(job, [&](Job& one, Seconds at) {
      return incoming->job ? std::optional(one.propose(*std::move(*incoming->job), at))
                           : one.propose_again(specification, at);
    });
  }
  if (!proposed) {  // it was forgotten since it was read
    job->known_bodies.erase(incoming->digest);
    return put(incoming);
  }
  if (job->known_bodies.size() < kKnownBodies) {
    job->known_bodies.emplace(incoming->digest, specification);
  }
  incoming->done(Registered{.job = job, .proposed = *proposed, .specification = specification});
}

/// For one more job in memory, of so many bytes.
Status JobRegistry::make_room(std::size_t bytes) {
  if (job_count() >= options_.most_jobs) {
    const std::vector<std::string> ended = ended_for(Seconds{0});
    if (ended.empty()) {
      return Error::of(ErrorCode::kUnavailable,
                       "the server holds " + std::to_string(job_count()) +
                           " jobs, as many as it may (--most-jobs), and none of them has ended");
    }
    remove_all({ended.begin(), ended.begin() + 1});
  }
  if (memory_ + bytes > options_.most_memory) unload_idle(0);
  if (memory_ + bytes > options_.most_memory) {
    return Error::of(ErrorCode::kUnavailable, "the jobs that train now, and this one, would take " +
                                                  std::to_string((memory_ + bytes) >> 20) +
                                                  " MiB, more than the " +
                                                  std::to_string(options_.most_memory >> 20) +
                                                  " MiB that they may have (--job-memory)");
  }
  return ok_status();
}

std::map<Activity, std::size_t> JobRegistry::activities() const {
  std::map<Activity, std::size_t> counts{
      {Activity::kActive, 0}, {Activity::kIdle, 0}, {Activity::kEnded, 0}};
  for (const auto& [id, job] : jobs_) ++counts[activity(*job)];
  for (const auto& [id, stored] : stored_) ++counts[activity(stored.summary)];
  return counts;
}

JobRegistry::Page JobRegistry::list(const std::string& after, std::size_t limit,
                                    const std::set<Activity>& activities,
                                    const std::optional<std::string>& only_job) const {
  Page page;
  std::size_t count = 0;
  std::string last;
  auto job = jobs_.upper_bound(after);
  auto stored = stored_.upper_bound(after);
  while (job != jobs_.end() || stored != stored_.end()) {
    const bool is_loaded =
        stored == stored_.end() || (job != jobs_.end() && job->first < stored->first);
    const std::string& id = is_loaded ? job->first : stored->first;
    const Activity now_is = is_loaded ? activity(*job->second) : activity(stored->second.summary);
    if ((!only_job || *only_job == id) && activities.contains(now_is)) {
      if (count == limit) {
        page.next = last;
        break;
      }
      if (count++ > 0) page.jobs += ',';
      page.jobs += is_loaded
                       ? listed_text(summary_of(*job->second), now_is, time_, job->second.get())
                       : listed_text(stored->second.summary, now_is, time_, nullptr);
      last = id;
    }
    is_loaded ? void(++job) : void(++stored);
  }
  return page;
}

// --- Removing -----------------------------------------------------------------------------------

void JobRegistry::remove(const std::string& id, Removing done) {
  if (const auto removal = removals_.find(id); removal != removals_.end()) {
    removal->second.push_back(std::move(done));
    return;
  }
  if (!holds(id)) return done(false);
  remove_all({id});
  // Without a store it is gone already.
  if (const auto removal = removals_.find(id); removal != removals_.end()) {
    removal->second.push_back(std::move(done));
  } else {
    done(true);
  }
}

void JobRegistry::remove_all(const std::vector<std::string>& ids) {
  std::vector<JobSaver::Removal> removals;
  for (const std::string& id : ids) {
    removals_[id];
    removals.push_back({.job = id, .epoch = claim_of(id)->epoch});
  }
  saver_.remove(std::move(removals), [this, ids](const JobSaver::Removed& removed) {
    for (const std::string& id : ids) {
      finish_removal(id, std::ranges::find(removed.gone, id) != removed.gone.end(), removed.status);
    }
    for (const auto& [id, epoch] : removed.lost) lose(id, epoch);
  });
}

void JobRegistry::finish_removal(const std::string& id, bool gone, const Status& status) {
  const JobPtr job = find(id);
  if (gone) {
    if (job != nullptr) {
      job->deleted = true;
      drop(job, deleted());
    } else if (const auto stored = stored_.find(id); stored != stored_.end()) {
      const std::vector<Loaded> waiting = std::exchange(stored->second.waiting, {});
      stored_.erase(stored);
      for (const Loaded& one : waiting) one(JobPtr());
    }
  } else if (job != nullptr) {
    save(job);
    doubted_[id] = job->saving.revisions.newest();
  } else if (holds(id)) {
    doubted_[id] = std::numeric_limits<std::int64_t>::max();
  }
  const std::vector<Removing> waiting = std::exchange(removals_[id], {});
  removals_.erase(id);
  const Result<bool> outcome =
      gone ? Result<bool>(true)
           : Result<bool>(store_failure("the job is still there; ask again later", status.error()));
  for (const Removing& one : waiting) one(outcome);
}

/// Ids of jobs that have ended for so long, those that ended first before the others.
std::vector<std::string> JobRegistry::ended_for(Seconds time) const {
  std::vector<std::pair<Seconds, std::string>> ended;
  const auto look = [&](const std::string& id, Activity activity, Seconds heard,
                        std::optional<Seconds> end) {
    if (activity != Activity::kEnded || removals_.contains(id)) return;
    const Seconds since = std::max(heard, end.value_or(heard));
    if (now() - since >= time) ended.emplace_back(since, id);
  };
  for (const auto& [id, stored] : stored_) {
    const JobSummary& summary = stored.summary;
    if (stored.loading) continue;
    look(id, activity(summary), Seconds{summary.heard},
         summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt);
  }
  for (const auto& [id, job] : jobs_) {
    if (job->listeners.interest() != JobListener::Interest::kNone) continue;
    look(id, activity(*job), job->job.heard(), job->job.ended());
  }
  std::ranges::sort(ended);
  std::vector<std::string> ids;
  for (auto& [since, id] : ended) ids.push_back(std::move(id));
  return ids;
}

void JobRegistry::prune(Seconds age) {
  if (options_.lifetimes.keep_ended > Seconds{0}) {
    std::vector<std::string> ended = ended_for(options_.lifetimes.keep_ended);
    if (!ended.empty()) {
      log_(std::to_string(ended.size()) + " jobs that ended long ago are removed, such as " +
           ended.front());
    }
    // Some at a time: saves come in between.
    for (std::size_t i = 0; i < ended.size(); i += kRemovedAtOnce) {
      const auto end =
          ended.begin() + static_cast<std::ptrdiff_t>(std::min(ended.size(), i + kRemovedAtOnce));
      remove_all({ended.begin() + static_cast<std::ptrdiff_t>(i), end});
    }
  }
  Retention keep{.since = (now() - age).value, .jobs = std::vector<std::string>()};
  for (const auto& [id, job] : jobs_) keep.jobs->push_back(id);
  saver_.prune(std::move(keep));
}

}  // namespace harpe
