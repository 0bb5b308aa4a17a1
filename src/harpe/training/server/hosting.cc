#include "harpe/training/server/hosting.h"

#include <utility>

namespace harpe::training {
namespace {

constexpr Seconds kRefreshSummaries{60};

std::optional<ClockMark> kept_clock(Store* store,
                                    const std::function<void(const std::string&)>& log) {
  if (store == nullptr) return std::nullopt;
  const Result<std::optional<ClockMark>> kept = store->clock();
  if (kept.ok()) return *kept;
  log("the store's clock cannot be read, so it begins anew: " + kept.error().text());
  return std::nullopt;
}

}  // namespace

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
