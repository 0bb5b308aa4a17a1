#include "harpe/training/server/hosted_job.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/job/job_size.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/job_summary.h"

namespace harpe::training {
namespace {

constexpr const char* kUserPart = "energy:user";
constexpr std::size_t kBytesOfInterval = 152;
constexpr carbon::WholeSeconds kDay = carbon::whole_days(1);

carbon::UtcTime day_of(carbon::UtcTime time) {
  return {time.since_1970 - time.since_1970 % kDay.count()};
}

using Mode = CarbonDecision::Mode;

constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;
/// If the wall clock is this much before the last decision, it was set back.
constexpr Seconds kSetBack{5};

std::string text_of(const std::optional<CarbonTerms>& terms) {
  return terms ? carbon_terms_json(*terms) : "null";
}

}  // namespace

void JobLedger::set_user(const std::string& user) {
  if (!runs_.empty() && runs_.rbegin()->second.user.empty() && !user.empty()) {
    carbon::LedgerRun& newest = runs_.rbegin()->second;
    newest.user = user;
    for (const auto& [start, use] : newest.ledger.uses()) changed_days_.insert(day_of(start));
  }
  user_changed_ = user_changed_ || user_ != user;
  user_ = user;
}

carbon::LedgerRun& JobLedger::run_of(const Training& training) {
  const auto start = static_cast<std::int64_t>(training.start);
  auto found = runs_.find(start);
  if (found == runs_.end() && runs_.size() >= kMostStarts) found = std::prev(runs_.end());
  if (found == runs_.end()) {
    carbon::LedgerRun run{.id = training.incarnation + "." + std::to_string(start),
                          .run = training.run,
                          .start = start,
                          .user = user_,
                          .ledger = carbon::EnergyLedger(kStep)};
    found = runs_.emplace(start, std::move(run)).first;
  }
  found->second.devices = std::max<std::int64_t>(found->second.devices, training.ranks);
  return found->second;
}

void JobLedger::put(carbon::LedgerRun& run, double from, double to, const carbon::EnergyUse& use) {
  const std::size_t before = run.ledger.size();
  // A machine's clock may be wrong: the ledger rejects times before 1970, and their use is dropped.
  if (!run.ledger.add(from, to, use).ok()) return;
  intervals_ += run.ledger.size() - before;
  const auto last = carbon::UtcTime{static_cast<std::int64_t>(to)};
  for (carbon::UtcTime day = day_of({static_cast<std::int64_t>(from)}); day <= last; day += kDay) {
    changed_days_.insert(day);
  }
}

void JobLedger::add(const Training& training, const ReportedUse& reported, double ended) {
  carbon::EnergyUse use;
  if (std::isfinite(reported.energy.value) && reported.energy.value >= 0) {
    use.energy = reported.energy;
    use.measured = reported.time;
    const double error = reported.energy_error.value;
    const bool known = std::isfinite(error) && error > 0;
    if (known) use.variance = error * error;
    if (!known) use.without_error = reported.energy;
  }
  if (training.all > 0) use.iterations = 1.0 / training.all;
  put(run_of(training), ended - reported.time.value, ended, use);
}

void JobLedger::hold(const Training& training, double from, double to) {
  if (to <= from) return;
  put(run_of(training), from, to, {.device_time = training.ranks * Seconds{to - from}});
}

void JobLedger::pause(const Training& training, double from, double to) {
  if (to <= from) return;
  put(run_of(training), from, to, {.paused = Seconds{to - from}});
}

std::vector<carbon::LedgerRun> JobLedger::runs(const std::string& job, carbon::UtcTime from,
                                               carbon::UtcTime to) const {
  std::vector<carbon::LedgerRun> result;
  for (const auto& [start, run] : runs_) {
    carbon::EnergyLedger part = run.ledger.part(from, to);
    if (part.empty()) continue;
    result.push_back({.id = run.id,
                      .job = job,
                      .run = run.run,
                      .start = run.start,
                      .user = run.user,
                      .devices = run.devices,
                      .ledger = std::move(part)});
  }
  return result;
}

std::size_t JobLedger::memory() const {
  return runs_.size() * sizeof(carbon::LedgerRun) + intervals_ * kBytesOfInterval;
}

std::map<std::string, std::string> JobLedger::take_changed_parts() {
  std::map<std::string, std::string> parts;
  for (const carbon::UtcTime day : std::exchange(changed_days_, {})) {
    parts[std::string(kParts) + carbon::utc_text(day).substr(0, 10)] =
        carbon::ledger_json(runs({}, day, day + kDay));
  }
  if (std::exchange(user_changed_, false)) {
    parts[kUserPart] = json_line(nlohmann::ordered_json{{"user", user_}});
  }
  return parts;
}

JobLedger JobLedger::read(const std::map<std::string, std::string>& parts,
                          const std::function<void(const std::string&)>& log) {
  JobLedger ledger;
  for (auto part = parts.lower_bound(std::string(kParts));
       part != parts.end() && part->first.starts_with(kParts); ++part) {
    if (part->first == kUserPart) {
      const auto document = parse_json(part->second, part->first);
      const JsonValue* user = document.ok() ? document->find("user") : nullptr;
      if (user != nullptr) ledger.user_ = user->string;
      continue;
    }
    Result<std::vector<carbon::LedgerRun>> day = carbon::parse_ledger(part->second, part->first);
    if (!day.ok()) {
      log(day.error().text());
      continue;
    }
    for (carbon::LedgerRun& run : *day) {
      ledger.intervals_ += run.ledger.size();
      const std::int64_t start = run.start;
      const auto [found, is_new] = ledger.runs_.try_emplace(start, std::move(run));
      if (is_new) continue;
      // Days of one start share no interval. NOLINTNEXTLINE(bugprone-use-after-move)
      if (Status merged = found->second.ledger.merge(run.ledger); !merged.ok()) {
        log(part->first + ": " + merged.error().text());
      }
      found->second.devices = std::max(found->second.devices, run.devices);
    }
  }
  return ledger;
}

void JobCarbon::follow(const std::string& of_specification, std::int64_t newest) {
  const IterationCount before = count_;
  count_.observe(newest);
  // A new start of training is stored; iterations are stored with the next decision.
  if (count_.base() != before.base()) {
    changed_ = true;
    state_.pauses_ignored = false;  // other processes may follow pauses
  }
  if (of_specification == adopted_) return;
  adopted_ = of_specification;
  changed_ = true;
  Result<CarbonTerms> terms = parse_carbon_terms(of_specification);
  set(terms.ok() ? std::optional(*std::move(terms)) : std::nullopt);
}

void JobCarbon::set(std::optional<CarbonTerms> terms) {
  if (terms == terms_) return;
  ++revision_;
  changed_ = true;
  ended_ = terms_.has_value() && !terms;
  const ProgressSpread spread = state_.spread;
  state_ = {};
  state_.spread = spread;
  decision_.reset();
  decide_soon();
  if (terms && terms->iterations_done) {
    count_ = IterationCount(*terms->iterations_done, count_.newest());
  }
  terms_ = std::move(terms);
}

bool JobCarbon::is_due(Seconds wall) const {
  if (!terms_ || deciding) return false;
  return wall >= due_ || wall < decided_at_ - kSetBack;
}

bool JobCarbon::decided(std::uint64_t revision, ControlState state, CarbonDecision decision,
                        Seconds wall, Seconds now) {
  deciding = false;
  if (revision != revision_ || !terms_) return false;
  state_ = std::move(state);
  due_ = decision.valid_until;
  decided_at_ = wall;
  changed_ = true;
  say(decision, now);
  decision_ = std::move(decision);
  return true;
}

/// Logs a change of mode or of lateness, except paces and pauses, which the job logs itself.
void JobCarbon::say(const CarbonDecision& decision, Seconds now) {
  if (decision_ && decision_->mode == decision.mode && decision_->in_time == decision.in_time) {
    return;
  }
  const bool is_bad = decision.mode == Mode::kFastest || decision.mode == Mode::kStatic;
  if (decision.mode == Mode::kPaused || (decision.mode == Mode::kPaced && decision_)) return;
  std::string text = "carbon control: " + std::string(name_of(decision.mode));
  if (!decision.why.empty()) text += ", " + decision.why;
  events_.push_back({.kind = is_bad ? "warning" : "info", .text = std::move(text), .at = now});
}

std::string JobCarbon::take_changed_text() {
  if (!std::exchange(changed_, false)) return {};
  return json_line(
      net::OrderedJson{{"terms", own_json(text_of(terms_))},
                       {"adopted", adopted_},
                       {"count", {{"done", count_.done()}, {"newest", count_.newest()}}},
                       {"state", own_json(control_state_json(state_))}});
}

Status JobCarbon::read(std::string_view text) {
  const std::string what = "carbon control";
  const JsonValue document = HARPE_TRY(parse_json(text, what));
  JobCarbon made;
  const auto terms_of = [&](Fields& fields, std::string_view key, Diagnostics& diagnostics) {
    std::optional<CarbonTerms> terms;
    const JsonValue* value = fields.any(key);
    if (value == nullptr || value->type == JsonValue::Type::kNull) return terms;
    Fields members(*value, std::string(key), diagnostics);
    terms = read_carbon_terms(members, diagnostics, Unknown::kIgnored);
    return terms;
  };
  HARPE_TRY(read_object(
      document, what, what, Unknown::kIgnored, [&](Fields& fields, Diagnostics& diagnostics) {
        made.terms_ = terms_of(fields, "terms", diagnostics);
        made.adopted_ = fields.text("adopted").value_or("");
        const JsonValue* count = fields.object("count");
        if (count == nullptr) return;
        Fields members(*count, "count", diagnostics);
        made.count_ = IterationCount(members.integer("done", 0, kMostCounted).value_or(0),
                                     members.integer("newest", -1, kMostCounted).value_or(-1));
      }));
  const net::OrderedJson parsed = json_or_discarded(text);
  if (parsed.is_object() && parsed.contains("state")) {
    made.state_ = HARPE_TRY(parse_control_state(json_line(parsed["state"])));
  }
  *this = std::move(made);
  return ok_status();
}

HostedJob::HostedJob(std::string given_id, Job given, JobServices& services)
    : Hosted(std::move(given_id)),
      job(std::move(given)),
      services_(services),
      logged_phase_(job.phase()) {}

HostedTexts HostedJob::take_texts() {
  std::map<std::string, std::string> parts = job.take_changed_parts();
  parts.merge(ledger.take_changed_parts());
  if (std::string text = carbon.take_changed_text(); !text.empty()) {
    parts[kCarbonPart] = std::move(text);
  }
  return {.state = job.snapshot(),
          .parts = std::move(parts),
          .plans = std::exchange(unsaved_plans, std::nullopt)};
}

std::string HostedJob::summary_text() const {
  return harpe::training::summary_text(*this);
}

std::size_t HostedJob::memory() const {
  if (measured_ != job.specification()) {
    measured_ = job.specification();
    memory_ = memory_of(job.spec());
  }
  return memory_ + job.rank_memory() + ledger.memory();
}

/// Records reported energy, and the time that registered ranks hold GPUs, even without reports.
void HostedJob::note_use(const std::vector<ReportedUse>& reported, Seconds now) {
  const ServiceClock& time = services_.time();
  const JobLedger::Training training{.incarnation = job.incarnation(),
                                     .start = job.start(),
                                     .run = job.run(),
                                     .ranks = job.registered(),
                                     .all = job.spec().shape.ranks()};
  for (const ReportedUse& one : reported) ledger.add(training, one, time.shown(one.at).value);
  const Seconds until = std::min(now, job.heard() + Job::kSilence);
  const Seconds from = held_until_.value_or(until);
  const bool is_held = training.ranks > 0 && training.start > 0 && !job.ended();
  if (is_held) ledger.hold(training, time.shown(from).value, time.shown(until).value);
  held_until_ = std::max(from, until);
  // Until now, the job was in the state of the last call; the present state is for the next call.
  if (paused_until_ && training.start > 0) {
    ledger.pause(training, time.shown(*paused_until_).value, time.shown(now).value);
  }
  const bool is_paused = job.pause().is == PauseState::Is::kPaused;
  paused_until_ = is_paused ? std::optional(now) : std::nullopt;
}

HostedEffects HostedJob::take_effects(Seconds now) {
  carbon.follow(job.spec().carbon, job.newest_iteration());
  if (carbon.take_ended()) static_cast<void>(job.set_pace(std::nullopt, now));
  JobEffects effects = job.take_effects();
  HostedEffects outcome{.events = carbon.take_events(),
                        .save = effects.save || effects.plans || carbon.needs_saving(),
                        .changed = effects.assignments};
  for (JobEvent& event : effects.events) {
    const bool is_warning = event.level == JobEvent::Level::kWarning;
    outcome.events.push_back({is_warning ? "warning" : "info", std::move(event.text), event.at});
  }
  if (job.phase() != logged_phase_) {
    logged_phase_ = job.phase();
    outcome.events.push_back({"phase", name_of(logged_phase_), now});
  }
  note_use(effects.used, now);
  services_.follow(shared_from_this(), std::move(effects));
  return outcome;
}

Result<HostedPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                  JobServices& services,
                                  const std::function<void(const std::string&)>& log) {
  Result<std::map<std::string, std::string>> parts = store.parts(stored.id);
  if (!parts.ok()) return store_failure("the job cannot be read now", parts.error());
  const Result<std::optional<std::string>> text = store.plans(stored.id);
  if (!text.ok()) return store_failure("the job cannot be read now", text.error());
  std::optional<plan::PlanTable> plans;
  if (*text) {
    Result<plan::PlanTable> read = plan::PlanTable::parse(**text, stored.id);
    if (!read.ok()) {
      log("the plans of job " + stored.id + " cannot be read: " + read.error().text());
    } else {
      plans = *std::move(read);
    }
  }
  JobCarbon carbon;
  if (const auto kept = parts->find(kCarbonPart); kept != parts->end()) {
    if (const Status read = carbon.read(kept->second); !read.ok()) {
      log("the carbon control of job " + stored.id + " cannot be read: " + read.error().text());
    }
  }
  const Result<std::optional<JobSummary>> summary = store.summary(stored.id);
  if (!summary.ok()) return store_failure("the job cannot be read now", summary.error());
  JobLedger ledger = JobLedger::read(
      *parts, [&](const std::string& why) { log("job " + stored.id + ", its energy: " + why); });
  Job job = HARPE_TRY(Job::read({.state = stored.state,
                                 .parts = *std::move(parts),
                                 .heard = Seconds{*summary ? (*summary)->heard : 0}},
                                std::move(plans), now));
  const auto hosted = std::make_shared<HostedJob>(stored.id, std::move(job), services);
  hosted->ledger = std::move(ledger);
  hosted->carbon = std::move(carbon);
  return HostedPtr(hosted);
}

}  // namespace harpe::training
