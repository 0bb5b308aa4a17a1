#include "harpe/client/server_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/job/job_json.h"

namespace harpe {
namespace {

constexpr std::size_t kLongestMessage = 300;

bool is_success(const HttpAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

/// That only time can mend.
bool is_outage(const HttpAnswer& answer) {
  return answer.status == 0 || answer.status == 429 || answer.status >= 500;
}

}  // namespace

std::string error_message(const HttpAnswer& answer) {
  if (answer.status == 0) return answer.failure;
  std::string message;
  if (const auto document = parse_json(answer.body, "the answer")) {
    const JsonValue* error = document->find("error");
    const JsonValue* text = error == nullptr ? nullptr : error->find("message");
    if (text != nullptr) message = text->string;
  }
  std::erase_if(message, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n'; });
  std::ranges::replace(message, '\n', ' ');
  if (message.size() > kLongestMessage) message.resize(kLongestMessage);
  const std::string status = "status " + std::to_string(answer.status);
  return message.empty() ? status : message + " (" + status + ")";
}

ServerSession::ServerSession(ServerSessionOptions options, HttpLink& link, Clock& clock,
                             Listener listener)
    : options_(std::move(options)),
      link_(link),
      clock_(clock),
      listener_(std::move(listener)),
      random_(static_cast<std::minstd_rand::result_type>(
          std::hash<std::string>{}(options_.registration.session) | 1)),
      next_try_(clock.now()),
      next_listen_(clock.now()) {}

Instant ServerSession::next() const {
  const Instant never = clock_.now() + Seconds{3600};
  Instant next = never;
  const bool has_end = ending_ && !end_told_;
  if (!asking_ && (stage_ != Stage::kRunning || !reports_.empty() || has_end)) next = next_try_;
  if (stage_ == Stage::kRunning && !listening_) next = std::min(next, next_listen_);
  if (away_since_ && governed_) next = std::min(next, *away_since_ + options_.patience);
  return next;
}

void ServerSession::tick() {
  const Instant now = clock_.now();
  if (away_since_ && governed_ && now >= *away_since_ + options_.patience) {
    governed_ = false;
    listener_.governed(false);
  }
  if (!asking_ && now >= next_try_) {
    if (stage_ == Stage::kJob)
      register_job();
    else if (stage_ == Stage::kRank)
      register_rank();
    else if (!reports_.empty())
      send_report();
    else if (ending_ && !end_told_)
      send_end();
  }
  if (stage_ == Stage::kRunning && !listening_ && now >= next_listen_) listen();
}

void ServerSession::report(IterationReport report) {
  report.session = options_.registration.session;
  if (reports_.size() >= kMostReports) {
    reports_.pop_front();
    ++reports_dropped_;
  }
  reports_.push_back(std::move(report));
}

void ServerSession::register_job() {
  asking_ = true;
  link_.send("PUT", job_path(), options_.spec,
             [this](const HttpAnswer& answer) { job_answered(answer); });
}

void ServerSession::register_rank() {
  asking_ = true;
  link_.send("POST", job_path() + "/ranks", rank_registration_json(options_.registration),
             [this](const HttpAnswer& answer) { rank_answered(answer); });
}

void ServerSession::send_report() {
  asking_ = true;
  sending_ = std::move(reports_.front());
  reports_.pop_front();
  sending_->known = known_;
  link_.send("POST", job_path() + "/reports", iteration_report_json(*sending_),
             [this](const HttpAnswer& answer) { report_answered(answer); });
}

void ServerSession::send_end() {
  asking_ = true;
  const RankEnd end{.place = options_.registration.place, .session = options_.registration.session};
  link_.send("POST", job_path() + "/end", rank_end_json(end), [this](const HttpAnswer& answer) {
    asking_ = false;
    if (is_outage(answer)) return failed(answer, "say that training has ended");
    // A job, or a place, that is not this rank's any more needs no end.
    end_told_ = true;
  });
}

void ServerSession::listen() {
  listening_ = true;
  stream_ = EventReader();
  const Place place = options_.registration.place;
  link_.listen(
      job_path() + "/events?data=" + std::to_string(place.data) +
          "&stage=" + std::to_string(place.stage),
      [this](std::string_view bytes) {
        answered();
        stream_failures_ = 0;
        // One that is too long ends the stream on its next silence; answers still bring orders.
        (void)stream_.add(bytes, [this](const EventReader::Event& event) { hear(event); });
      },
      [this](const HttpAnswer& answer) { stream_ended(answer); });
}

void ServerSession::job_answered(const HttpAnswer& answer) {
  asking_ = false;
  if (is_outage(answer)) return failed(answer, "register the job");
  answered();
  if (!is_success(answer)) return refused(answer, "the job cannot be registered");
  stage_ = Stage::kRank;
  tick();
}

void ServerSession::rank_answered(const HttpAnswer& answer) {
  asking_ = false;
  if (is_outage(answer)) return failed(answer, "register this rank");
  answered();
  if (answer.status == 404) return begin_again(Stage::kJob);
  if (answer.status == 409) {
    // The process before this one may only just have ended.
    ++failures_;
    next_try_ = clock_.now() + pause(failures_);
    if (failures_ > 6)
      notice_once("place", "this rank's place is taken: " + error_message(answer) +
                               "; where training has started again, a new "
                               "HARPE_RUN, the same on all ranks, takes its places "
                               "at once");
    return;
  }
  if (!is_success(answer)) return refused(answer, "this rank cannot be registered");
  failures_ = 0;
  stage_ = Stage::kRunning;
  told_.erase("place");
  if (!std::exchange(governed_, true)) listener_.governed(true);
  take_orders(answer.body);
  tick();
}

void ServerSession::report_answered(const HttpAnswer& answer) {
  asking_ = false;
  IterationReport report = *std::exchange(sending_, std::nullopt);
  if (is_outage(answer)) {
    reports_.push_front(std::move(report));
    return failed(answer, "report an iteration");
  }
  answered();
  if (is_success(answer)) {
    ++reports_sent_;
    take_orders(answer.body);
    return tick();
  }
  ++reports_dropped_;
  if (answer.status == 404) return begin_again(Stage::kJob);
  if (answer.status == 409) return begin_again(Stage::kRank);
  notice_once("report", "the server refuses a report: " + error_message(answer));
  if (answer.status == 401 || answer.status == 403) next_try_ = clock_.now() + kPersonsRetry;
}

void ServerSession::stream_ended(const HttpAnswer& answer) {
  listening_ = false;
  ++stream_failures_;
  next_listen_ = clock_.now() + pause(stream_failures_);
  if (answer.status == 200) return;
  if (is_outage(answer)) {
    // Whether the server is gone, the next report tells; without one, registering again does.
    if (stage_ == Stage::kRunning && !asking_ && reports_.empty()) begin_again(Stage::kRank);
  } else if (answer.status != 404 && answer.status != 409) {
    notice_once("events", "the server refuses its events: " + error_message(answer));
  }
}

void ServerSession::hear(const EventReader::Event& event) {
  if (event.name == "orders") take_orders(event.data);
}

void ServerSession::take_orders(const std::string& text) {
  auto orders = parse_orders(text);
  if (!orders) {
    notice_once("orders", "the server sent orders that cannot be read: " + orders.error().text());
    return;
  }
  if (orders->empty()) return;
  for (const StageOrders& one : *orders) known_ = std::max(known_, one.version);
  listener_.orders(*orders);
}

void ServerSession::begin_again(Stage stage) {
  stage_ = stage;
  ++failures_;
  next_try_ = clock_.now() + pause(failures_);
}

void ServerSession::answered() {
  if (away_since_ && told_.contains("away")) {
    told_.erase("away");
    listener_.notice("the server answers again");
  }
  away_since_.reset();
  if (stage_ != Stage::kRunning) return;
  failures_ = 0;
  if (!std::exchange(governed_, true)) listener_.governed(true);
}

void ServerSession::failed(const HttpAnswer& answer, const std::string& what) {
  const Instant now = clock_.now();
  if (!away_since_) away_since_ = now;
  ++failures_;
  next_try_ = now + pause(failures_);
  notice_once("away", "cannot " + what + ": " + error_message(answer) +
                          "; training goes on, at full clocks after " +
                          shortest(options_.patience.value) + " s, and this is tried again");
}

void ServerSession::refused(const HttpAnswer& answer, const std::string& what) {
  next_try_ = clock_.now() + kPersonsRetry;
  notice_once("refused", what + ": " + error_message(answer) + "; training goes on as it is");
}

Seconds ServerSession::pause(int failures) {
  const double doubled = options_.first_retry.value * std::exp2(std::clamp(failures - 1, 0, 20));
  // Ranks that lost their server at one moment do not come back at one moment.
  std::uniform_real_distribution<double> spread(0.75, 1.25);
  return Seconds{std::min(doubled, options_.longest_retry.value) * spread(random_)};
}

void ServerSession::notice_once(const std::string& key, const std::string& text) {
  if (told_.insert(key).second) listener_.notice(text);
}

}  // namespace harpe
