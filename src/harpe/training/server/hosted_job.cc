#include "harpe/training/server/hosted_job.h"

#include <algorithm>
#include <utility>

#include "harpe/training/job/job_size.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/job_summary.h"

namespace harpe::training {

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

/// GPUs are held by ranks that are heard of, whether they report or not.
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
  // By what it did until now: what it does from now on is for the next time.
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
      log("how job " + stored.id + " moves with its grid cannot be read: " + read.error().text());
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
