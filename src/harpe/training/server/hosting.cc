#include "harpe/training/server/hosting.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/training/server/job_saver.h"

namespace harpe::training {
namespace {

/// Returns "format" of a JSON object; empty if it has none. Builds no other part of the object.
std::string format_of(const std::string& state) {
  using Json = nlohmann::json;
  std::string format;
  bool is_next = false;
  const auto look = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key) {
      is_next = depth == 1 && value == "format";
      return depth > 0;
    }
    if (event == Json::parse_event_t::value && std::exchange(is_next, false) && value.is_string()) {
      format = value.get<std::string>();
    }
    return depth == 0;
  };
  [[maybe_unused]] const Json nothing = Json::parse(state, look, false);
  return format;
}

/// Time that an idle job stays in memory after its last use, because it may be requested again.
constexpr Seconds kLookedAt{60};
constexpr std::size_t kSummarisedAtOnce = 20;
/// A client may use one share of the memory for jobs, as of the memory for requests.
constexpr std::size_t kSharesOfMemory = 2;

Error unreadable(const std::string& id, const Error& why) {
  return Error::of(
      ErrorCode::kUnavailable,
      "job " + id + " is stored, but cannot be read; removing it frees its id: " + why.text());
}

constexpr Seconds kRefreshSummaries{60};

std::optional<ClockMark> kept_clock(Store* store,
                                    const std::function<void(const std::string&)>& log) {
  if (store == nullptr) return std::nullopt;
  const Result<std::optional<ClockMark>> kept = store->clock();
  if (kept.ok()) return *kept;
  log("the store's clock cannot be read, so it starts from zero: " + kept.error().text());
  return std::nullopt;
}

}  // namespace

Result<HostedPtr> JobRestorer::restore(Store& store, const std::string& id, Seconds now) const {
  const Result<std::optional<StoredJob>> stored = store.job(id);
  if (!stored.ok()) return store_failure("the job cannot be read now", stored.error());
  if (!*stored) return HostedPtr();
  if (kinds_.empty()) return Error::of(ErrorCode::kInternal, "this server reads no kind of job");
  const std::string format = format_of((*stored)->state);
  auto kind =
      std::ranges::find_if(kinds_, [&](const auto& one) { return format.starts_with(one.first); });
  if (kind == kinds_.end()) kind = kinds_.begin();
  HostedPtr hosted = HARPE_TRY(kind->second(store, **stored, now));
  hosted->saving.revisions = Revisions::of_stored((*stored)->revision);
  return hosted;
}

bool JobMemory::take_up(JobSummary summary, const JobClaim& claim) {
  if (const JobClaim* const before = services_.table.claim_of(summary.job)) {
    if (*before == claim) return false;
    claims_.let_go(summary.job);
  }
  if (summary.text.empty()) unsummarised_.push_back(summary.job);
  services_.table.add_stored(std::move(summary), claim);
  return true;
}

void JobMemory::load(const std::string& id, HostedTable::Loaded done) {
  if (const HostedPtr hosted = services_.table.find(id)) {
    hosted->used = services_.clock.now();
    return done(hosted);
  }
  HostedTable::Stored* const stored = services_.table.find_stored(id);
  if (stored == nullptr) return done(HostedPtr());
  stored->waiting.push_back(std::move(done));
  if (std::exchange(stored->loading, true)) return;
  services_.readers.run(id, [this, id, claim = stored->claim, at = services_.time.now()] {
    return [this, id, claim, hosted = restorer_.restore(*services_.store, id, at)] {
      loaded(id, claim, hosted);
    };
  });
}

void JobMemory::loaded(const std::string& id, const JobClaim& claim,
                       const Result<HostedPtr>& hosted) {
  HostedTable::Stored* const stored = services_.table.find_stored(id);
  // The job was removed or released in the meantime, and another server may have changed it.
  if (stored == nullptr || stored->claim != claim) return;
  std::vector<HostedTable::Loaded> waiting = std::exchange(stored->waiting, {});
  stored->loading = false;
  const auto respond = [&](const Result<HostedPtr>& with) {
    for (const HostedTable::Loaded& one : waiting) one(with);
  };
  if (!hosted.ok()) {
    const bool is_away = hosted.error().code == ErrorCode::kUnavailable;
    if (!is_away) services_.log("job " + id + " cannot be read: " + hosted.error().text());
    return respond(is_away ? hosted : unreadable(id, hosted.error()));
  }
  if (*hosted == nullptr) {  // another server removed it
    services_.table.erase_stored(id);
    return respond(HostedPtr());
  }
  if (Status room = make_room((*hosted)->memory()); !room.ok()) return respond(room.error());
  const bool has_summary = !stored->summary.text.empty();
  if (has_summary) (*hosted)->stored_summary = std::move(stored->summary.text);
  (*hosted)->claim = claim;
  ++counts_.loads;
  jobs_.add(*hosted);
  if (claims_.removals().was_doubted(id)) {
    jobs_.save(*hosted);
    claims_.removals().doubt(id, hosted->get());
  }
  if (!has_summary) services_.saver.refresh((*hosted)->summary(), claim.epoch);
  respond(*hosted);
  unload_idle();
}

Status JobMemory::make_room(std::size_t bytes, const std::string& client) {
  if (services_.table.count() >= services_.options.most_jobs && !claims_.remove_first_ended()) {
    return Error::of(ErrorCode::kUnavailable,
                     "the server holds " + std::to_string(services_.table.count()) +
                         " jobs, its maximum (--most-jobs), and none of them has ended");
  }
  return make_memory(bytes, client, nullptr);
}

Status JobMemory::make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client) {
  const bool is_of_client = !hosted.client.empty() || client.empty();
  // Bytes already in memory need no room, so a rank that registers again is never refused.
  if (bytes > 0)
    HARPE_TRY(make_memory(bytes, hosted.client.empty() ? client : hosted.client, &hosted));
  if (!is_of_client) services_.table.charge(hosted, client);
  return ok_status();
}

/// Unloads idle jobs if `bytes` do not fit. Fails if they still do not.
/// \param hosted  the job that needs the bytes, which stays in memory; null for a new job
Status JobMemory::make_memory(std::size_t bytes, const std::string& client, const Hosted* hosted) {
  const std::size_t share = services_.options.most_memory / kSharesOfMemory;
  const std::size_t own = hosted == nullptr ? 0 : hosted->memory_counted;
  // Memory of the client's other jobs, because a single job may be larger than a share.
  const auto others = [&] {
    const bool is_counted = hosted != nullptr && hosted->client == client;
    return services_.table.memory(client) - (is_counted ? own : 0);
  };
  const auto is_over_share = [&] {
    return !client.empty() && others() > 0 && others() + own + bytes > share;
  };
  const auto is_full = [&] {
    return services_.table.memory() + bytes > services_.options.most_memory;
  };
  if (is_full() || is_over_share()) unload_idle(0, hosted);
  if (is_over_share()) {
    return Error::of(ErrorCode::kUnavailable,
                     "jobs of " + client + " that train now, and this one, would take " +
                         std::to_string((others() + own + bytes) >> 20) + " MiB, more than the " +
                         std::to_string(share >> 20) +
                         " MiB that one user or address may have, half of --job-memory");
  }
  if (is_full()) {
    return Error::of(ErrorCode::kUnavailable,
                     "the jobs that train now, and this one, would take " +
                         std::to_string((services_.table.memory() + bytes) >> 20) +
                         " MiB, more than the " +
                         std::to_string(services_.options.most_memory >> 20) +
                         " MiB that they may have (--job-memory)");
  }
  return ok_status();
}

bool JobMemory::is_idle(const Hosted& hosted) const {
  return services_.store != nullptr && !claims_.removals().are_under_way(hosted.id) &&
         hosted.saving.waiting.empty() &&
         (hosted.asleep() || services_.activities.of(hosted) != Activity::kActive) &&
         hosted.listeners.interest() == JobListener::Interest::kNone;
}

void JobMemory::unload_idle(std::size_t most, const Hosted* kept_job) {
  const Seconds kept = std::min(kLookedAt, services_.options.lifetimes.idle_after);
  const Instant recent = services_.clock.now() + kept * -1;
  std::vector<HostedPtr> idle;
  for (const auto& [id, hosted] : services_.table.loaded()) {
    if (hosted.get() == kept_job || !is_idle(*hosted)) continue;
    if (hosted->touched) jobs_.save(hosted);  // it leaves memory after this save
    const SaveState& saving = hosted->saving;
    if (saving.revisions.is_stored() && saving.events.empty()) idle.push_back(hosted);
  }
  std::ranges::sort(idle, {}, [](const HostedPtr& hosted) { return hosted->used; });
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle.size() - i > most || idle[i]->used < recent) unload(idle[i]);
  }
}

void JobMemory::unload(const HostedPtr& hosted) {
  ++counts_.unloads;
  jobs_.refresh_summary(*hosted);
  JobSummary summary = hosted->summary();
  hosted->unloaded = true;
  jobs_.drop(hosted, Error::of(ErrorCode::kUnavailable, "the job was unloaded; try again"));
  services_.table.add_stored(std::move(summary), hosted->claim);
}

void JobMemory::summarise_some() {
  for (std::size_t i = 0; i < kSummarisedAtOnce && !unsummarised_.empty(); ++i) {
    const std::string id = std::move(unsummarised_.back());
    unsummarised_.pop_back();
    load(id, [](const Result<HostedPtr>&) {});
  }
}

void StoreVerifier::verify() {
  if (services_.store == nullptr) return;
  worker_.run({}, [this]() -> std::function<void()> {
    const Status whole = services_.store->verify();
    if (whole.ok()) return nullptr;
    return [this, why = whole.error().text()] {
      damage_ = why;
      services_.log("the store is damaged: " + why);
    };
  });
}

Hosting::Hosting(Loop& loop, Clock& clock, Store* store, Options options,
                 std::function<void(const std::string&)> log)
    : options_(std::move(options)),
      log_(std::move(log)),
      time_(options_.clocks, kept_clock(store, log_)),
      activities_(table_, time_, options_.lifetimes),
      services_{options_, log_, clock, time_, store, table_, activities_, saver_, readers_},
      jobs_(services_, job_log_),
      claims_(services_, jobs_),
      memory_(services_, jobs_, claims_),
      refreshed_(clock.now()),
      saver_(
          {.loop = loop,
           .clock = clock,
           .time = time_,
           .store = store,
           .log = log_,
           .make_workers = options_.make_workers,
           .lost = [this](const std::string& id, std::int64_t epoch) { claims_.lose(id, epoch); }}),
      job_log_(services_),
      verifier_(loop, services_),
      readers_(loop, options_.make_workers({.threads = 3, .for_small = 1})) {}

Hosting::~Hosting() {
  for (const auto& [id, hosted] : table_.loaded()) {
    if (hosted->touched || !hosted->saving.revisions.is_stored()) jobs_.save(hosted);
    jobs_.refresh_summary(*hosted);
  }
}

Status Hosting::restore() {
  if (services_.store == nullptr) return ok_status();
  std::vector<JobSummary> summaries = HARPE_TRY(services_.store->summaries());
  for (JobSummary& summary : summaries) {
    const std::optional<JobClaim> claim = HARPE_TRY(services_.store->claim(summary.job));
    if (claim) {
      memory_.take_up(std::move(summary), *claim);
    } else {
      log_("job " + summary.job + " is another server's");
    }
  }
  return ok_status();
}

void Hosting::tick() {
  jobs_.tick();
  memory_.unload_idle();
  if (services_.clock.now() - refreshed_ >= kRefreshSummaries) {
    refreshed_ = services_.clock.now();
    for (const auto& [id, hosted] : table_.loaded()) jobs_.refresh_summary(*hosted);
  }
  memory_.summarise_some();
  saver_.tick();
}

void Hosting::prune(Seconds age) {
  claims_.remove_old();
  Retention keep{.since = (time_.now() - age).value, .jobs = std::vector<std::string>()};
  for (const auto& [id, hosted] : table_.loaded()) keep.jobs->push_back(id);
  saver_.prune(std::move(keep));
}

}  // namespace harpe::training
