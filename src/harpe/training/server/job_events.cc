#include "harpe/training/server/job_events.h"

#include <algorithm>
#include <utility>

#include "harpe/net/http/http_responses.h"

namespace harpe::training {
namespace {

constexpr Seconds kHeartbeat{15};

std::string event(const char* name, const std::string& data) {
  return std::string("event: ") + name + "\ndata: " + data + "\n\n";
}

bool is_same(const StageAssignment& a, const StageAssignment& b) {
  return a.version == b.version && a.from_iteration == b.from_iteration && a.purpose == b.purpose &&
         a.clocks == b.clocks && a.knobs == b.knobs && a.pause == b.pause;
}

class JobEvents final : public net::EventStream, public JobListener {
 public:
  JobEvents(JobRegistry& registry, JobRegistry::JobPtr job, EventListener listener)
      : registry_(registry),
        job_(std::move(job)),
        incarnation_(job_->job.incarnation()),
        listener_(std::move(listener)),
        event_(job_->newest_event),
        sent_at_(registry.clock().now()) {
    job_->listeners.add(*this);
  }

  void start(std::function<void()> wake) override {
    wake_ = std::move(wake);
    wake_();
  }

  std::string take() override {
    std::string text;
    // Sends the end of the job, but nothing that another server may contradict now.
    if (!job_->deleted && !is_governed()) return text;
    if (listener_.coordinates && !job_->deleted && job_->job.version() != version_) {
      // The first assignments after a listener begins are not a delivery of a change.
      if (version_ != 0) {
        registry_.counts().add_delivery(registry_.clock().now() - job_->assignments_at);
      }
      version_ = job_->job.version();
      text +=
          event("assignments", rank_response_json(rank_response(*job_),
                                                  assignments_text(*job_, *listener_.coordinates)));
    }
    const char* phase = job_->deleted ? "deleted" : name_of(job_->job.phase());
    if (phase != phase_) {
      phase_ = phase;
      text += event("phase", json_line({{"phase", phase}}));
    }
    for (const LoggedEvent& logged : job_->events) {
      if (logged.sequence <= event_) continue;
      event_ = logged.sequence;
      if (logged.kind == "phase") continue;
      text += event("log",
                    json_line({{"level", logged.kind}, {"text", logged.text}, {"at", logged.at}}));
    }
    if (text.empty() && heartbeat_due_) text = ": hb\n\n";
    heartbeat_due_ = false;
    if (!text.empty()) sent_at_ = registry_.clock().now();
    return text;
  }

  bool ended() const override { return !is_governed(); }

  void changed() override {
    if (wake_) wake_();
  }

  Interest interest() const override {
    return listener_.coordinates ? Interest::kTakesPart : Interest::kLooks;
  }

  void ticked() override {
    if (registry_.clock().now() - sent_at_ < kHeartbeat) return;
    heartbeat_due_ = true;
    changed();
  }

 private:
  /// Returns true if this server commands the listener.
  bool is_governed() const {
    if (job_->is_over() || !registry_.commands(*job_)) return false;
    if (job_->job.incarnation() != incarnation_) return false;
    if (!listener_.coordinates || listener_.session.empty()) return true;
    const auto [pipeline, stage] = *listener_.coordinates;
    return job_->job.session({pipeline, stage, listener_.tensor}) == listener_.session;
  }

  JobRegistry& registry_;
  const JobRegistry::JobPtr job_;
  const std::string incarnation_;
  const EventListener listener_;
  std::function<void()> wake_;
  std::uint64_t version_ = 0;
  const char* phase_ = nullptr;  ///< one of the names, which are never copied
  std::int64_t event_;
  Instant sent_at_;
  bool heartbeat_due_ = false;
};

}  // namespace

std::string assignments_text(HostedJob& job, StageCoordinates coordinates) {
  constexpr std::size_t kMostBytes = 4 * 1024 * 1024;
  HostedJob::AssignmentsTexts& known = job.assignments_texts;
  if (known.version != job.job.version() || known.bytes > kMostBytes) {
    known = {.version = job.job.version(), .texts = {}};
  }
  std::vector<StageAssignment> assignments =
      job.job.assignments(coordinates.pipeline, coordinates.stage);
  for (const auto& one : known.texts) {
    if (one.stage == coordinates.stage &&
        std::ranges::equal(one.assignments, assignments, is_same)) {
      return one.text;
    }
  }
  std::string text = assignments_json(assignments);
  known.bytes += text.size();
  known.texts.push_back({coordinates.stage, std::move(assignments), text});
  return text;
}

RankResponse rank_response(const HostedJob& job) {
  return {.incarnation = job.job.incarnation(),
          .epoch = static_cast<std::uint64_t>(job.claim.epoch)};
}

std::shared_ptr<net::EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                             EventListener listener) {
  return std::make_shared<JobEvents>(registry, job, std::move(listener));
}

}  // namespace harpe::training
