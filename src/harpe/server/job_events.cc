#include "harpe/server/job_events.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "harpe/http/http_answers.h"

namespace harpe {
namespace {

constexpr Seconds kHeartbeat{15};

template <class Number>
void append_number(std::string& text, Number number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end.ptr);
}

std::string event(const char* name, const std::string& data) {
  return std::string("event: ") + name + "\ndata: " + data + "\n\n";
}

bool is_same(const StageOrders& a, const StageOrders& b) {
  return a.version == b.version && a.from_iteration == b.from_iteration && a.purpose == b.purpose &&
         a.clocks == b.clocks;
}

class JobEvents final : public EventStream, public JobListener {
 public:
  JobEvents(JobRegistry& registry, JobRegistry::JobPtr job, EventListener listener)
      : registry_(registry),
        job_(std::move(job)),
        incarnation_(job_->job.incarnation()),
        listener_(std::move(listener)),
        notice_(job_->newest_notice),
        sent_at_(registry.clock().now()) {
    job_->listeners.add(*this);
  }

  void start(std::function<void()> wake) override {
    wake_ = std::move(wake);
    wake_();
  }

  std::string take() override {
    std::string text;
    // Its end is told; of what another server may say otherwise by now, nothing is.
    if (!job_->deleted && !is_governed()) return text;
    if (listener_.place && !job_->deleted && job_->job.version() != version_) {
      // Not for those there when it began.
      if (version_ != 0) registry_.count_delivery(*job_);
      version_ = job_->job.version();
      text += event("orders", "{" + life_text(*job_) +
                                  ",\"orders\":" + orders_text(*job_, *listener_.place) + "}");
    }
    const char* phase = job_->deleted ? "deleted" : name_of(job_->job.phase());
    if (phase != phase_) {
      phase_ = phase;
      text += event("phase", json_line({{"phase", phase}}));
    }
    for (const LoggedNotice& notice : job_->notices) {
      if (notice.sequence <= notice_) continue;
      notice_ = notice.sequence;
      if (notice.kind == "phase") continue;
      text += event("notice",
                    json_line({{"level", notice.kind}, {"text", notice.text}, {"at", notice.at}}));
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
    return listener_.place ? Interest::kRank : Interest::kLooks;
  }

  void ticked() override {
    if (registry_.clock().now() - sent_at_ < kHeartbeat) return;
    heartbeat_due_ = true;
    changed();
  }

 private:
  /// Whether this server tells the listener what to do.
  bool is_governed() const {
    if (job_->is_over() || !registry_.commands(*job_)) return false;
    if (job_->job.incarnation() != incarnation_) return false;
    if (!listener_.place || listener_.session.empty()) return true;
    const auto [pipeline, stage] = *listener_.place;
    return job_->job.session({pipeline, stage, listener_.tensor}) == listener_.session;
  }

  JobRegistry& registry_;
  const JobRegistry::JobPtr job_;
  const std::string incarnation_;
  const EventListener listener_;
  std::function<void()> wake_;
  std::uint64_t version_ = 0;
  const char* phase_ = nullptr;  ///< one of the names, which are never copied
  std::int64_t notice_;
  Instant sent_at_;
  bool heartbeat_due_ = false;
};

}  // namespace

std::string orders_text(const std::vector<StageOrders>& orders) {
  std::string text = "[";
  for (const StageOrders& one : orders) {
    if (text.size() > 1) text += ',';
    text += "{\"version\":";
    append_number(text, one.version);
    text += ",\"from_iteration\":";
    append_number(text, one.from_iteration);
    text.append(",\"purpose\":\"").append(name_of(one.purpose)).append("\",\"clocks_mhz\":[");
    for (std::size_t i = 0; i < one.clocks.size(); ++i) {
      if (i > 0) text += ',';
      append_number(text, one.clocks[i].value);
    }
    text += "]}";
  }
  return text + ']';
}

std::string orders_text(HostedJob& job, StagePlace place) {
  constexpr std::size_t kMostBytes = 4 * 1024 * 1024;
  HostedJob::OrdersTexts& known = job.orders_texts;
  if (known.version != job.job.version() || known.bytes > kMostBytes) {
    known = {.version = job.job.version(), .texts = {}};
  }
  std::vector<StageOrders> orders = job.job.orders(place.pipeline, place.stage);
  for (const auto& one : known.texts) {
    if (one.stage == place.stage && std::ranges::equal(one.orders, orders, is_same)) {
      return one.text;
    }
  }
  std::string text = orders_text(orders);
  known.bytes += text.size();
  known.texts.push_back({place.stage, std::move(orders), text});
  return text;
}

std::string life_text(const HostedJob& job) {
  return "\"incarnation\":" + json_line(job.job.incarnation()) +
         ",\"epoch\":" + std::to_string(job.claim.epoch);
}

std::shared_ptr<EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                        EventListener listener) {
  return std::make_shared<JobEvents>(registry, job, std::move(listener));
}

}  // namespace harpe
