#include "harpe/training/server/job_registry.h"

#include <openssl/sha.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/job_size.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/server/job_summary.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr int kPlannerNice = 10;  // requests to the server have priority over planning
/// Jobs without a message from their ranks for this long are searched last.
constexpr Seconds kLately{120};

struct Characterized {
  Result<plan::PlanTable> plans;
  std::string json;                  ///< `plans` in the format of the store
  std::optional<Frontier> frontier;  ///< for the search of better plans
};

/// If clocks switch late, each plan needs its own search, so the first table has few plans.
constexpr int kFirstSwitchingPlans = 20;

Characterized with_json(plan::PlanTable plans, std::optional<Frontier> frontier) {
  std::string json = plans.stored_text();
  return {std::move(plans), std::move(json), std::move(frontier)};
}

Result<Frontier> frontier_of(const JobSpec& spec, const CharacterizeRequest& request,
                             const Progress& progress) {
  const Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  return characterize(spec, pipeline, request, progress);
}

/// Makes the first plans of a job: near-optimal, hundreds of them in less than a second. Called by
/// several workers at once.
/// \param known  the plans of the job; a request for its objective alone adds one plan to them
/// \param fraction  progress from 0 to 1, updated
/// \param wanted  polled; false ends the work
Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::shared_ptr<const plan::PlanTable>& known,
                               std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  const auto failed = [](Error error) { return Characterized{std::move(error), {}, {}}; };
  constexpr double kShareOfFrontier = 0.5;
  const Result<Frontier> frontier =
      frontier_of(spec, request, [&fraction](double done) { fraction = done * kShareOfFrontier; });
  if (!frontier.ok()) return failed(frontier.error());
  const bool is_switching =
      spec.switch_latency.longest() > Seconds{0} || spec.min_dwell > Seconds{0};
  Result<plan::PlanTable> plans = make_plans(
      spec, request, *frontier, Effort::kQuick, is_switching ? kFirstSwitchingPlans : spec.plans,
      wanted,
      [&fraction](double done) { fraction = kShareOfFrontier + done * (1 - kShareOfFrontier); });
  if (!plans.ok()) return failed(std::move(plans).error());
  if (request.only_objective && known != nullptr) plans = plan::PlanTable::merged(*known, *plans);
  return with_json(*std::move(plans), *frontier);
}

/// Makes the best plans that can be found, in some tens of milliseconds each; none is worse than
/// its counterpart in `first`.
/// \param frontier  of the same request; nullopt to compute it again
Characterized better_plans(const JobSpec& spec, const CharacterizeRequest& request,
                           std::optional<Frontier> frontier, const plan::PlanTable& first,
                           std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  if (!frontier) {
    Result<Frontier> again = frontier_of(spec, request, {});
    if (!again.ok()) return {std::move(again).error(), {}, {}};
    frontier = *std::move(again);
  }
  Result<plan::PlanTable> plans = make_plans(spec, request, *frontier, Effort::kFull, spec.plans,
                                             wanted, [&fraction](double done) { fraction = done; });
  if (!plans.ok()) return {std::move(plans).error(), {}, {}};
  return with_json(plan::PlanTable::merged(first, *plans), {});
}

/// Maximum number of remembered request bodies per job: ranks may send the same specification with
/// different text.
constexpr std::size_t kKnownBodies = 8;
/// A body of at most this size is parsed and hashed in negligible time.
constexpr std::size_t kSmallBody = 64 * 1024;
constexpr Seconds kSearchFollowed{0.5};

/// Returns the SHA-256 digest (32 bytes) of a text.
std::string digest_of(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

/// Returns null if the job is null or not a training job.
JobPtr training_job(const HostedPtr& hosted) {
  return std::dynamic_pointer_cast<HostedJob>(hosted);
}

Error other_kind(const std::string& id) {
  return Error::of(ErrorCode::kConflict, "a job of another kind has the id " + id);
}

}  // namespace

std::optional<Characterization> HostedJob::characterization() const {
  if (work == nullptr) return std::nullopt;
  return Characterization{work->ticket, work->running, work->fraction};
}

JobPlanner::JobPlanner(Loop& loop, int workers, const MakeWorkers& make_workers, Deliver deliver)
    : work_(loop),
      workers_(static_cast<std::size_t>(std::max(1, workers))),
      deliver_(std::move(deliver)),
      characterizers_(
          make_workers({.threads = static_cast<int>(workers_) + 1, .nice = kPlannerNice})),
      improver_(make_workers({.threads = 1, .nice = kPlannerNice})) {}

std::shared_ptr<HostedJob::Work> JobPlanner::work_for(const JobPtr& job, std::uint64_t ticket) {
  const auto work = std::make_shared<HostedJob::Work>();
  work->ticket = ticket;
  work->large = instructions_of(job->job.spec()) >= kLarge;
  return work;
}

void JobPlanner::plan(const JobPtr& job) {
  if (job->work != nullptr) job->work->wanted = false;
  const auto work = work_for(job, job->job.characterize_request().ticket);
  job->work = work;
  first_.push_back({job, work});
  start_what_may();
}

void JobPlanner::plan_beside(const JobPtr& job, CharacterizeRequest request) {
  const auto work = work_for(job, request.ticket);
  first_.push_back({job, work, std::move(request)});
  start_what_may();
}

void JobPlanner::cancel(const JobPtr& job) {
  if (job->work == nullptr) return;
  job->work->wanted = false;
  job->work = nullptr;
}

void JobPlanner::cancel_search(const JobPtr& job) {
  if (job->work != nullptr && job->work->first_done) cancel(job);
}

bool JobPlanner::may_start(const HostedJob::Work& work) const {
  if (work.large) return large_running_ < workers_;
  return small_running_ + large_running_ < workers_ + 1;
}

void JobPlanner::start_what_may() {
  const auto gone = [](const Waiting& one) { return !one.work->wanted || one.job->is_over(); };
  std::erase_if(first_, gone);
  std::erase_if(better_, gone);
  for (auto next = first_.begin(); next != first_.end();) {
    if (!may_start(*next->work)) {
      ++next;
      continue;
    }
    const Waiting waiting = std::move(*next);
    next = first_.erase(next);
    start_first(waiting);
  }
  if (!searching_) start_search();
}

void JobPlanner::start_first(const Waiting& waiting) {
  ++(waiting.work->large ? large_running_ : small_running_);
  waiting.work->running = true;
  // The worker has a copy of the job's specification, because the job changes on the loop's thread.
  characterizers_->run(
      waiting.job->id,
      [this, waiting, spec = waiting.job->job.spec(), known = waiting.job->job.shared_plans(),
       request = waiting.beside ? *waiting.beside : waiting.job->job.characterize_request()] {
        const std::shared_ptr<HostedJob::Work> work = waiting.work;
        auto first = std::make_shared<Characterized>(characterize_job(
            spec, request, known, work->fraction, [work] { return work->wanted.load(); }));
        work_.post([this, waiting, first] {
          --(waiting.work->large ? large_running_ : small_running_);
          waiting.work->running = false;
          ++planned_;
          const bool better_follow = first->plans.ok() && !waiting.beside;
          deliver_(waiting.job, waiting.work->ticket, first->plans, first->json, better_follow);
          if (!waiting.beside) {
            first_is_done(waiting, first->plans.ok(), std::move(first->frontier));
          }
          start_what_may();
        });
      });
}

void JobPlanner::first_is_done(const Waiting& waiting, bool has_plans,
                               std::optional<Frontier> frontier) {
  const JobPtr& job = waiting.job;
  const std::shared_ptr<HostedJob::Work>& work = waiting.work;
  if (!has_plans) {
    if (job->work == work) job->work = nullptr;
    return;
  }
  if (!work->wanted) return;
  work->first_done = true;
  // A frontier is large: it is not kept for a job that waits in the queue.
  if (!searching_ && better_.empty()) return search(waiting, std::move(frontier));
  better_.push_back(waiting);
}

void JobPlanner::start_search() {
  if (better_.empty()) return;
  const auto heard = [](const Waiting& one) { return one.job->job.heard(); };
  const Seconds lately = std::ranges::max(better_, {}, heard).job->job.heard() - kLately;
  const auto next =
      std::ranges::find_if(better_, [&](const Waiting& one) { return heard(one) >= lately; });
  const Waiting waiting = std::move(*next);
  better_.erase(next);
  search(waiting, {});
}

void JobPlanner::search(const Waiting& waiting, std::optional<Frontier> frontier) {
  if (waiting.job->job.shared_plans() == nullptr) return cancel(waiting.job);
  searching_ = true;
  waiting.work->running = true;
  improver_->run(
      waiting.job->id,
      [this, waiting, frontier = std::move(frontier), spec = waiting.job->job.spec(),
       first = waiting.job->job.shared_plans(), request = waiting.job->job.characterize_request()] {
        const std::shared_ptr<HostedJob::Work> work = waiting.work;
        const auto wanted = [work] { return work->wanted.load(); };
        auto better = std::make_shared<const Characterized>(
            better_plans(spec, request, frontier, *first, work->fraction, wanted));
        work_.post([this, waiting, better] {
          searching_ = false;
          waiting.work->running = false;
          if (waiting.work->wanted) {
            deliver_(waiting.job, waiting.work->ticket, better->plans, better->json, false);
          }
          if (waiting.job->work == waiting.work) waiting.job->work = nullptr;
          start_what_may();
        });
      });
}

JobRegistry::JobRegistry(Loop& loop, Hosting& hosting, Options options)
    : hosting_(hosting),
      options_(std::move(options)),
      searcher_(loop, hosting.clock(), options_.search, hosting.options().make_workers,
                [this](const JobPtr& job, std::uint64_t ticket,
                       const std::shared_ptr<const plan::PlanTable>& plans,
                       const std::string& json) { return take_better(job, ticket, plans, json); }),
      planner_(loop, options_.workers, hosting.options().make_workers,
               [this](const JobPtr& job, std::uint64_t ticket, const Result<plan::PlanTable>& plans,
                      const std::string& json,
                      bool better_follow) { deliver(job, ticket, plans, json, better_follow); }) {
  hosting_.memory().restorer().add(
      "harpe.job/",
      [this, log = hosting_.log()](Store& store, const StoredJob& stored, Seconds at) {
        return read_hosted_job(store, stored, at, *this, log);
      });
}

JobRegistry::~JobRegistry() {
  for (const JobPtr& job : jobs()) {
    planner_.cancel(job);
    searcher_.halt(job);
  }
}

JobPtr JobRegistry::find(const std::string& id) const {
  return training_job(hosting_.table().find(id));
}

void JobRegistry::load(const std::string& id, std::function<void(const Result<JobPtr>&)> done) {
  hosting_.memory().load(id, [done = std::move(done)](const Result<HostedPtr>& hosted) {
    done(hosted.ok() ? Result<JobPtr>(training_job(*hosted)) : hosted.error());
  });
}

std::vector<JobPtr> JobRegistry::jobs() const {
  std::vector<JobPtr> jobs;
  for (const auto& [id, hosted] : hosting_.table().loaded()) {
    if (JobPtr job = training_job(hosted)) jobs.push_back(std::move(job));
  }
  return jobs;
}

JobRegistry::Page JobRegistry::list(const std::string& after, std::size_t limit,
                                    const std::set<Activity>& activities,
                                    const std::optional<std::string>& only_job) const {
  Page page;
  page.next = hosting_.activities().list(
      after, limit, activities,
      [&](const std::string& id) {
        return only_job ? *only_job == id : !id.starts_with(kRecurringIds);
      },
      [&](const JobActivities::Listed& one) {
        if (!page.jobs.empty()) page.jobs += ',';
        page.jobs += listed_text(one.summary, one.activity, hosting_.time(),
                                 dynamic_cast<const HostedJob*>(one.hosted));
      });
  return page;
}

// --- Registering --------------------------------------------------------------------------------

/// A specification that is being registered.
struct JobRegistry::Incoming {
  std::string id, body;
  std::function<void(Result<Registered>)> done;
  std::string incarnation;  ///< for the case that it becomes a new job
  std::string client;
  bool is_new = true;  ///< this server holds no job with this id
  /// Digests of bodies that were read before, with the specifications parsed from them.
  std::map<std::string, std::string> known = {};

  // Results of `read`, on a worker's thread.
  std::string digest = {}, specification = {};
  std::optional<Result<Job>> job = {};  ///< nullopt if `known` has the body
  bool is_elsewhere = false;            ///< another server has claimed the id
  std::optional<JobClaim> claim = {};   ///< if the job is new
};

void JobRegistry::put(const std::string& id, std::string specification, const std::string& client,
                      std::function<void(Result<Registered>)> done) {
  put(std::make_shared<Incoming>(Incoming{.id = id,
                                          .body = std::move(specification),
                                          .done = std::move(done),
                                          .incarnation = options_.new_incarnation(),
                                          .client = client}));
}

void JobRegistry::put(const IncomingPtr& incoming) {
  const std::string& id = incoming->id;
  const auto again = [this, incoming](const Result<bool>&) { put(incoming); };
  if (hosting_.claims().removals().wait(id, again)) return;
  const HostedPtr hosted = hosting_.table().find(id);
  if (hosted == nullptr && hosting_.table().holds(id)) {
    return hosting_.memory().load(id, [this, incoming](const Result<HostedPtr>& loaded) {
      loaded.ok() ? put(incoming) : incoming->done(loaded.error());
    });
  }
  const JobPtr known = training_job(hosted);
  if (hosted != nullptr && known == nullptr) return incoming->done(other_kind(id));
  incoming->is_new = known == nullptr;
  if (known != nullptr) incoming->known = known->known_bodies;
  // Runs on a worker's thread and may outlive this registry.
  const auto read_and_take = [this, incoming, &hosting = hosting_,
                              only_profile = options_.only_profile]() -> std::function<void()> {
    read(*incoming, hosting, only_profile);
    return [this, incoming] { take(incoming); };
  };
  if (incoming->body.size() > kSmallBody) {
    return hosting_.readers().run(id, read_and_take, Workers::Size::kLarge);
  }
  incoming->digest = digest_of(incoming->body);
  if (incoming->known.contains(incoming->digest)) {
    incoming->specification = incoming->known.at(incoming->digest);
    return propose(known, incoming);
  }
  hosting_.readers().run(id, [this, incoming, read_and_take]() -> std::function<void()> {
    // A short body can declare a schedule of a hundred thousand instructions.
    if (declared_instructions(incoming->body) < JobPlanner::kLarge) return read_and_take();
    return [this, incoming, read_and_take] {
      hosting_.readers().run(incoming->id, read_and_take, Workers::Size::kLarge);
    };
  });
}

void JobRegistry::read(Incoming& incoming, const Hosting& hosting,
                       const std::optional<ProfilingOptions>& only_profile) {
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
  if (only_profile) {
    spec->profiling = *only_profile;
    spec->profile.reset();
    spec->carbon.clear();
    spec->observe = false;
  } else if (spec->profiling.as_is) {
    incoming.job = Error::invalid(
        "profiling.as_is: a plan needs several clocks; a profile at one clock is for harpe profile "
        "measure --as-is");
    return;
  }
  incoming.job = Job::create(*std::move(spec), hosting.time().now(), incoming.incarnation);
  if (!incoming.job->ok()) return;
  incoming.specification = (*incoming.job)->specification();
  if (!incoming.is_new) return;
  const Result<std::optional<JobClaim>> claim = hosting.claims().claim(incoming.id);
  if (!claim.ok()) {
    incoming.job = claim.error();
  } else {
    incoming.claim = *claim;
    incoming.is_elsewhere = !claim->has_value();
  }
}

void JobRegistry::take(const IncomingPtr& incoming) {
  const std::string& id = incoming->id;
  if (incoming->job && !incoming->job->ok()) return incoming->done(incoming->job->error());
  if (incoming->is_elsewhere) return incoming->done(Registered{});
  const JobPtr known = find(id);
  // The job has left memory, or is being removed, since the body was read.
  if (hosting_.claims().removals().are_under_way(id) ||
      (known == nullptr && (!incoming->claim || hosting_.table().holds(id)))) {
    return put(incoming);
  }
  if (known != nullptr) return propose(known, incoming);
  if (Status allowed = check(*incoming); !allowed.ok()) {
    hosting_.claims().release(id);
    return incoming->done(allowed.error());
  }
  const std::size_t memory = memory_of((*incoming->job)->spec());
  if (Status room = hosting_.memory().make_room(memory, incoming->client); !room.ok()) {
    hosting_.claims().release(id);
    return incoming->done(room.error());
  }
  JobServices& services = *this;
  const auto job = std::make_shared<HostedJob>(id, *std::move(*incoming->job), services);
  job->claim = *incoming->claim;
  job->client = incoming->client;
  job->known_bodies.emplace(incoming->digest, incoming->specification);
  hosting_.jobs().add(job);
  incoming->done(Registered{.job = job, .created = true, .specification = incoming->specification});
}

Status JobRegistry::check(const Incoming& incoming) const {
  if (!options_.check || !incoming.job) return ok_status();
  return options_.check((*incoming.job)->spec());
}

/// Proposes the specification to a job in memory.
void JobRegistry::propose(const JobPtr& job, const IncomingPtr& incoming) {
  const std::string& specification = incoming->specification;
  if (incoming->job && specification != job->job.specification()) {
    if (Status allowed = check(*incoming); !allowed.ok()) return incoming->done(allowed.error());
    Status room =
        hosting_.memory().make_room_in(*job, memory_of((*incoming->job)->spec()), incoming->client);
    if (!room.ok()) return incoming->done(room.error());
  }
  std::optional<Job::Proposed> proposed = Job::Proposed::kSame;
  if (specification != job->job.specification()) {
    proposed = act(job, [&](Job& one, Seconds at) {
      return incoming->job ? std::optional(one.propose(*std::move(*incoming->job), at))
                           : one.propose_again(specification, at);
    });
  }
  if (!proposed) {  // the job discarded this specification since the body was read
    job->known_bodies.erase(incoming->digest);
    return put(incoming);
  }
  if (job->known_bodies.size() < kKnownBodies) {
    job->known_bodies.emplace(incoming->digest, specification);
  }
  incoming->done(Registered{.job = job, .proposed = *proposed, .specification = specification});
}

Result<RankEntry> JobRegistry::register_rank(const JobPtr& job, const RankRegistration& rank,
                                             const std::string& client) {
  HARPE_TRY(hosting_.memory().make_room_in(*job, job->job.memory_to_register(rank, now()), client));
  return act(job, [&](Job& one, Seconds at) { return one.register_rank(rank, at); });
}

// --- Effects of events on a job -----------------------------------------------------------------

void JobRegistry::follow(const JobPtr& job, JobEffects effects) {
  if (!options_.only_profile) {
    if (effects.characterize) planner_.plan(job);
    for (CharacterizeRequest& request : effects.more_plans) {
      planner_.plan_beside(job, std::move(request));
    }
  }
  if (job->job.ended()) planner_.cancel(job);
  // The inputs of a search change with these effects; other changes are seen within a tick.
  const bool is_news = effects.assignments || effects.plans || effects.characterize ||
                       !effects.more_plans.empty() || job->job.ended();
  const Instant now = hosting_.clock().now();
  if (is_news || now - job->search_followed >= kSearchFollowed) {
    job->search_followed = now;
    searcher_.follow(job);
  }
  if (effects.assignments) {
    ++counts_.plan_changes;
    job->assignments_at = hosting_.clock().now();
  }
}

void JobRegistry::deliver(const JobPtr& job, std::uint64_t ticket,
                          const Result<plan::PlanTable>& plans, const std::string& json,
                          bool better_follow) {
  if (job->is_over() || job->job.ended()) return;
  act(job, [&](Job& one, Seconds at) {
    const plan::PlanTable* before = one.plans();
    one.characterized(ticket, plans, at, better_follow);
    if (one.plans() != before) job->unsaved_plans = json;
    return true;
  });
}

bool JobRegistry::take_better(const JobPtr& job, std::uint64_t ticket,
                              const std::shared_ptr<const plan::PlanTable>& plans,
                              const std::string& json) {
  if (job->is_over()) return false;
  return act(job, [&](Job& one, Seconds at) {
    const bool taken = one.found_better(ticket, plans, at);
    if (taken) job->unsaved_plans = json;
    return taken;
  });
}

}  // namespace harpe::training
