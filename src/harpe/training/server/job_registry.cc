#include "harpe/training/server/job_registry.h"

#include <openssl/sha.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "harpe/training/job/job_size.h"
#include "harpe/training/server/job_summary.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

/// Bodies of specifications of which it is known what they say: ranks may each say it in other
/// words.
constexpr std::size_t kKnownBodies = 8;
/// A body of this size is read, and its digest made, in a moment.
constexpr std::size_t kSmallBody = 64 * 1024;
constexpr Seconds kSearchFollowed{0.5};

/// Returns the SHA-256 digest (32 bytes) of a text.
std::string digest_of(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

/// Null where it is none, or of another kind.
JobPtr training_job(const HostedPtr& hosted) {
  return std::dynamic_pointer_cast<HostedJob>(hosted);
}

Error other_kind(const std::string& id) {
  return Error::of(ErrorCode::kConflict, "there is a job of another kind under the id " + id);
}

}  // namespace

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

/// A specification on its way in.
struct JobRegistry::Incoming {
  std::string id, body;
  std::function<void(Result<Registered>)> done;
  std::string incarnation;  ///< if it becomes a job
  std::string client;
  bool is_new = true;  ///< no job of this id is here
  /// Digests of bodies that were read before, to what they say.
  std::map<std::string, std::string> known = {};

  // What it is read to, on a worker's thread.
  std::string digest = {}, specification = {};
  std::optional<Result<Job>> job = {};  ///< none: `known` has it
  bool is_elsewhere = false;            ///< another server has claimed the id
  std::optional<JobClaim> claim = {};   ///< where it is new
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
  // On a worker's thread, which may outlast this.
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
    // A few words can ask for a schedule of a hundred thousand instructions.
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
        "profiling.as_is: a job is planned from several clocks; one alone is for harpe profile "
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
  // It has left memory, or is being removed, since this was read.
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

/// To a job that is in memory.
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
  if (!proposed) {  // it was forgotten since it was read
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

// --- What happens to a job, and what follows from it --------------------------------------------

void JobRegistry::follow(const JobPtr& job, JobEffects effects) {
  if (!options_.only_profile) {
    if (effects.characterize) planner_.plan(job);
    for (CharacterizeRequest& request : effects.more_plans) {
      planner_.plan_beside(job, std::move(request));
    }
  }
  if (job->job.ended()) planner_.cancel(job);
  // What a search depends on changes with these; all else is seen within a tick.
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
