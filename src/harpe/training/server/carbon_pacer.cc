#include "harpe/training/server/carbon_pacer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/net/http/http_responses.h"

namespace harpe::training {
namespace {

using Mode = CarbonDecision::Mode;

/// The inputs of a decision on a job, copied on the loop's thread.
struct CapturedJob {
  std::shared_ptr<const plan::PlanTable> plans;
  JobPacesOf of;
  CarbonTerms terms;
  ControlState state;
  Seconds now{}, even{};
  double done = 0;
  bool pauses_ignored = false;
};

/// Returns the iteration time of the slowest pipeline, for which all others wait at any pace; 0 if
/// there is no straggler.
Seconds slowest_pipeline(const JobStatus& status, const plan::PlanTable& plans) {
  double factor = 1;
  for (const plan::Straggler& one : status.stragglers) factor = std::max(factor, one.factor);
  return factor > 1 ? plans.all_max().time * factor : Seconds{0};
}

net::OrderedJson or_null(const std::optional<double>& value) {
  return value ? null_if_nan(*value) : net::OrderedJson(nullptr);
}

carbon::UtcTime whole(Seconds time) {
  return {static_cast<std::int64_t>(std::clamp(time.value, 0.0, 7e9))};
}

net::OrderedJson time_json(Seconds time) {
  return carbon::utc_text(whole(time));
}

/// Returns the problem of a source for display; empty if there is none.
std::string trouble_of(const OfferedSource& offered) {
  if (!offered.hangs.empty()) return offered.hangs;
  return offered.reading ? offered.reading->trouble : std::string();
}

net::OrderedJson decision_json(const CarbonDecision& made) {
  const auto time_or_null = [](const std::optional<Seconds>& time) {
    return time ? time_json(*time) : net::OrderedJson(nullptr);
  };
  return {
      {"mode", name_of(made.mode)},
      {"why", made.why},
      {"iteration_time_s", made.iteration_time ? net::OrderedJson(made.iteration_time->value)
                                               : net::OrderedJson(nullptr)},
      {"resumes", time_or_null(made.resumes)},
      {"valid_until", time_json(made.valid_until)},
      {"grams_per_kwh",
       made.present ? null_if_nan(made.present->grams_per_kwh) : net::OrderedJson(nullptr)},
      {"basis",
       made.present ? net::OrderedJson(basis_of(*made.present)) : net::OrderedJson(nullptr)},
      {"known_since", made.present ? net::OrderedJson(carbon::utc_text(made.present->known_since))
                                   : net::OrderedJson(nullptr)},
      {"forecast", made.step.empty() ? net::OrderedJson(nullptr) : net::OrderedJson(made.step)},
      {"guard", made.guard.empty() ? net::OrderedJson(nullptr) : net::OrderedJson(made.guard)},
      {"deadline", time_or_null(made.deadline)},
      {"in_time", made.in_time},
      {"finish", time_or_null(made.finish)},
      {"earliest", time_or_null(made.earliest)},
      {"behind_s", made.behind ? net::OrderedJson(made.behind->value) : net::OrderedJson(nullptr)},
      {"reserve_s", made.reserve.value},
      {"expected_g", or_null(made.grams)},
      {"static_g", or_null(made.static_grams)},
      {"gain", or_null(made.gain())}};
}

/// Returns the intensity that decisions use now. The newest value of the source may be of an
/// earlier interval.
net::OrderedJson acts_on_json(const ReadingPtr& reading, Seconds now) {
  const auto present = reading ? present_intensity(*reading, now) : std::nullopt;
  if (!present) return nullptr;
  return {{"grams_per_kwh", null_if_nan(present->grams_per_kwh)},
          {"basis", basis_of(*present)},
          {"known_since", carbon::utc_text(present->known_since)}};
}

net::OrderedJson reading_json(const OfferedSource& offered, Seconds wall) {
  net::OrderedJson json = {{"source", offered.name},
                           {"zone", offered.identity.zone},
                           {"kind", carbon::kind_word(offered.identity.kind)},
                           {"step_s", offered.identity.step.count()},
                           {"method", offered.method}};
  const ReadingPtr& reading = offered.reading;
  const std::string trouble = trouble_of(offered);
  json["asked_at"] = reading ? time_json(offered.asked_at) : net::OrderedJson(nullptr);
  json["read_at"] =
      offered.read_at > Seconds{0} ? time_json(offered.read_at) : net::OrderedJson(nullptr);
  json["trouble"] = trouble.empty() ? net::OrderedJson(nullptr) : net::OrderedJson(trouble);
  json["acts_on"] = acts_on_json(reading, wall);
  json["now"] = json["forecast"] = nullptr;
  const auto current = reading ? aged(reading->current, whole(wall)) : std::nullopt;
  if (current) {
    const carbon::LabelledIntensity& now = *current;
    json["now"] = {
        {"grams_per_kwh", now.intensity.grams_per_kwh},
        {"start", carbon::utc_text(now.start)},
        {"estimated", now.estimated},
        {"ladder", carbon::text_of(now.ladder)},
        {"may_control", carbon::carbon_control_allowed(now.ladder)},
        {"fetched_at", now.fetched_at ? net::OrderedJson(carbon::utc_text(*now.fetched_at))
                                      : net::OrderedJson()}};
  }
  if (reading && reading->forecast) {
    const carbon::LabelledForecast& forecast = *reading->forecast;
    json["forecast"] = {{"until", carbon::utc_text(forecast.expected.end())},
                        {"ladder", carbon::text_of(forecast.ladder)},
                        {"may_control", carbon::carbon_control_allowed(forecast.ladder)},
                        {"issued_at", carbon::utc_text(forecast.issued_at)},
                        {"fetched_at", carbon::utc_text(forecast.fetched_at)},
                        {"by", forecast.expected.source}};
  }
  return json;
}

}  // namespace

CarbonPacer::CarbonPacer(JobRegistry& registry, CarbonFeeds& feeds)
    : registry_(registry), feeds_(feeds) {}

void CarbonPacer::start() {
  feeds_.start([this](const std::string& source) {
    for (const JobPtr& job : registry_.jobs()) {
      if (!job->carbon.terms()) continue;
      const Result<std::string> chosen = feeds_.choose(*job->carbon.terms());
      if (chosen.ok() && *chosen == source) {
        job->carbon.decide_soon();
        decide(job);
      }
    }
  });
}

void CarbonPacer::tick() {
  feeds_.tick();
  for (const JobPtr& job : registry_.jobs()) decide(job);
}

/// Returns the reading for a job, never null: a source that is not offered, or has not answered
/// yet, has the reason in `trouble`.
ReadingPtr CarbonPacer::reading_of(const HostedJob& job) const {
  const auto none = std::make_shared<IntensityReading>();
  const Result<std::string> chosen = feeds_.choose(*job.carbon.terms());
  if (!chosen.ok()) {
    none->identity.provider = job.carbon.terms()->source;
    none->identity.zone = job.carbon.terms()->zone;
    none->trouble = chosen.error().text();
    return none;
  }
  const OfferedSource* offered = feeds_.find(*chosen);
  if (offered->reading && offered->hangs.empty()) return offered->reading;
  if (offered->reading) *none = *offered->reading;
  none->identity = offered->identity;
  none->trouble = offered->hangs.empty() ? "it has not responded yet" : offered->hangs;
  return none;
}

void CarbonPacer::decide(const JobPtr& job) {
  const Seconds wall = registry_.time().wall();
  if (!job->carbon.is_due(wall) || job->is_over()) return;
  if (job->job.ended() || !registry_.commands(*job)) return;
  const bool pauses = job->job.pace() && job->job.pace()->pause;
  // A paused job without ranks has left memory; ranks that wait for it request it.
  if (job->asleep() && pauses) registry_.wake(job);
  const bool trains = registry_.hosting().activities().of(*job) == Activity::kActive;
  if (job->asleep() || (!trains && !pauses)) return;
  const std::shared_ptr<const plan::PlanTable> plans = job->job.shared_plans();
  const JobPhase phase = job->job.phase();
  if (plans == nullptr ||
      (phase != JobPhase::kRunning && phase != JobPhase::kStraggling && !pauses))
    return;
  const JobStatus status = job->job.status();
  const JobShape& shape = job->job.spec().shape;
  CapturedJob captured{.plans = plans,
                       .of = {.pipelines = shape.data,
                              .gpus = shape.ranks(),
                              .overhead = job->job.overhead(),
                              .slowest_pipeline = slowest_pipeline(status, *plans)},
                       .terms = *job->carbon.terms(),
                       .state = job->carbon.state(),
                       .now = wall,
                       .even = registry_.now(),
                       .done = static_cast<double>(job->carbon.done()),
                       .pauses_ignored = status.pause.is == PauseState::Is::kNotFollowed};
  job->carbon.deciding = true;
  // Runs on a worker's thread and may outlive this object.
  registry_.hosting().readers().run(
      job->id,
      [this, job, captured = std::move(captured), reading = reading_of(*job),
       revision = job->carbon.revision()]() -> std::function<void()> {
        CarbonController controller(captured.terms, captured.state);
        CarbonDecision decision =
            controller.decide({.now = captured.now,
                               .even = captured.even,
                               .done = captured.done,
                               .paces = job_paces(*captured.plans, captured.of),
                               .pauses_ignored = captured.pauses_ignored},
                              *reading);
        return [this, job, revision, controller = std::move(controller),
                decision = std::move(decision)] { take(job, revision, controller, decision); };
      });
}

void CarbonPacer::take(const JobPtr& job, std::uint64_t revision, CarbonController controller,
                       CarbonDecision decision) {
  if (job->is_over()) return;
  std::optional<Pace> pace;
  if (decision.mode != Mode::kDone) {
    pace.emplace();
    pace->iteration_time = decision.iteration_time;
    pace->pause = decision.mode == Mode::kPaused;
    pace->resumes = decision.resumes;
    pace->why = decision.why;
    // Applies to training that continues despite the pause.
    const std::optional<Pace>& before = job->job.pace();
    if (pace->pause && before) pace->iteration_time = before->iteration_time;
  }
  registry_.act(job, [&](Job& one, Seconds at) {
    if (!job->carbon.decided(revision, controller.state(), std::move(decision),
                             registry_.time().wall(), at)) {
      return false;
    }
    // If the job cannot take this pace, the next decision reports it.
    static_cast<void>(one.set_pace(pace, at));
    return true;
  });
}

Status CarbonPacer::set_terms(const JobPtr& job, std::optional<CarbonTerms> terms) {
  if (terms) {
    if (Result<std::string> chosen = feeds_.choose(*terms); !chosen.ok()) {
      return std::move(chosen).error();
    }
  }
  registry_.act(job, [&](Job&, Seconds) {
    job->carbon.set(std::move(terms));
    return true;
  });
  decide(job);
  return ok_status();
}

std::string CarbonPacer::shown(const HostedJob& job) const {
  const JobCarbon& carbon = job.carbon;
  if (!carbon.terms()) return "null";
  const Result<std::string> chosen = feeds_.choose(*carbon.terms());
  const ControlState& state = carbon.state();
  net::OrderedJson json = {
      {"terms", own_json(carbon_terms_json(*carbon.terms()))},
      {"source", chosen.ok() ? net::OrderedJson(*chosen) : net::OrderedJson(nullptr)},
      {"kind", state.source.empty() ? net::OrderedJson(nullptr)
                                    : net::OrderedJson(carbon::kind_word(state.kind))},
      {"iterations_done", carbon.done()},
      {"since", state.has_begun() ? time_json(state.begun) : net::OrderedJson(nullptr)},
      {"mean_loss", state.spread.mean_loss()},
      {"decision",
       carbon.decision() ? decision_json(*carbon.decision()) : net::OrderedJson(nullptr)}};
  return json_line(json);
}

std::string CarbonPacer::sources_shown() const {
  net::OrderedJson list = net::OrderedJson::array();
  for (const OfferedSource& one : feeds_.offered())
    list.push_back(reading_json(one, registry_.time().wall()));
  return json_line(net::OrderedJson{{"sources", std::move(list)}});
}

}  // namespace harpe::training
