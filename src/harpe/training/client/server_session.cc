#include "harpe/training/client/server_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/training/wire/wire.h"

namespace harpe {
namespace {

constexpr std::size_t kLongestMessage = 300;
/// Between requests of a rank whose start of training gathers, at first and when it takes long.
constexpr Seconds kGathering{1}, kLongGathering{5};
constexpr int kShortGatherings = 60;
constexpr double kShareOfPatience = 2.0 / 3;
constexpr Seconds kSayPausing{1};
constexpr Seconds kPauseWhileHeard{5};  // after a failure, where the stream shows the server

bool is_success(const HttpResult& response) {
  return response.status >= 200 && response.status < 300;
}

/// That only time can mend; 421: the job is moving to another server.
bool is_outage(const HttpResult& response) {
  return response.status == 0 || response.status == 421 || response.status == 429 ||
         response.status >= 500;
}

/// The code of an error response; empty where it has none.
std::string error_code(const HttpResult& response) {
  const auto document = parse_json(response.body, "the response");
  if (!document.ok()) return {};
  const JsonValue* error = document->find("error");
  const JsonValue* code = error == nullptr ? nullptr : error->find("code");
  return code == nullptr ? std::string() : code->string;
}

}  // namespace

std::string error_message(const HttpResult& response) {
  if (response.status == 0) return response.failure;
  std::string message;
  if (const auto document = parse_json(response.body, "the response"); document.ok()) {
    const JsonValue* error = document->find("error");
    const JsonValue* text = error == nullptr ? nullptr : error->find("message");
    if (text != nullptr) message = text->string;
  }
  std::erase_if(message, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n'; });
  std::ranges::replace(message, '\n', ' ');
  if (message.size() > kLongestMessage) message.resize(kLongestMessage);
  const std::string status = "status " + std::to_string(response.status);
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
      confirmed_(clock.now()),
      heard_(clock.now()),
      next_listen_(clock.now()) {}

/// A rank that has nothing to report is heard of so often.
Seconds ServerSession::unheard() const {
  return std::clamp(options_.patience * kShareOfPatience, Seconds{1}, kLongestUnheard);
}

/// When a rank that has nothing to report registers again.
Instant ServerSession::keep_alive() const {
  const Instant usual = heard_ + unheard();
  return say_pausing_ ? std::min(usual, *say_pausing_) : usual;
}

void ServerSession::pausing(std::uint64_t pause) {
  if (std::exchange(options_.registration.pausing, pause) == pause) return;
  say_pausing_.reset();
  if (pause == 0) return;
  std::uniform_real_distribution<double> spread(0, kSayPausing.value);
  say_pausing_ = clock_.now() + Seconds{spread(random_)};
}

Instant ServerSession::next() const {
  Instant next = clock_.now() + Seconds{3600};
  if (!asking_ && !end_told_) {
    const bool asks = stage_ != Stage::kRunning || !reports_.empty() || ending_;
    next = asks ? next_try_ : std::max(next_try_, keep_alive());
  }
  if (may_listen()) next = std::min(next, next_listen_);
  if (drop_stream_) next = clock_.now();
  if (governed_) next = std::min(next, confirmed_ + options_.patience);
  return next;
}

void ServerSession::tick() {
  const Instant now = clock_.now();
  if (std::exchange(drop_stream_, false)) {
    link_.stop_listening();
    listening_ = false;
  }
  if (governed_ && now >= confirmed_ + options_.patience) {
    governed_ = false;
    listener_.governed(false);
  }
  if (unauthorized_ && !asking_ && link_.renew_token()) next_try_ = now;
  if (!asking_ && !end_told_ && now >= next_try_) ask(now);
  if (may_listen() && now >= next_listen_) listen();
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
             [this](const HttpResult& response) { job_answered(response); });
}

void ServerSession::register_rank() {
  asking_ = true;
  say_pausing_.reset();
  link_.send("POST", job_path() + "/ranks", rank_registration_json(options_.registration),
             [this](const HttpResult& response) { rank_answered(response); });
}

/// The next request, if there is one to make.
void ServerSession::ask(Instant now) {
  if (stage_ == Stage::kJob) return register_job();
  if (stage_ != Stage::kRunning) return register_rank();
  if (!reports_.empty()) return send_report();
  if (ending_) return send_end();
  if (now >= keep_alive()) register_rank();
}

void ServerSession::send_report() {
  asking_ = true;
  sending_ = std::move(reports_.front());
  reports_.pop_front();
  sending_->known = known_;
  sending_->reached = listener_.reached ? listener_.reached() : -1;
  sending_->epoch = known_epoch_;
  sending_->incarnation = options_.registration.incarnation;
  link_.send("POST", job_path() + "/reports", iteration_report_json(*sending_),
             [this](const HttpResult& response) { report_answered(response); });
}

void ServerSession::send_end() {
  asking_ = true;
  const RankEnd end{.coordinates = options_.registration.coordinates,
                    .session = options_.registration.session};
  link_.send("POST", job_path() + "/end", rank_end_json(end), [this](const HttpResult& response) {
    asking_ = false;
    if (is_outage(response)) return failed(response, "say that training has ended");
    // A job, or a place, that is not this rank's any more needs no end.
    end_told_ = true;
  });
}

void ServerSession::listen() {
  listening_ = stream_is_new_ = true;
  stream_ = EventReader();
  const RankCoordinates coordinates = options_.registration.coordinates;
  link_.listen(
      job_path() + "/events?data=" + std::to_string(coordinates.data) + "&stage=" +
          std::to_string(coordinates.stage) + "&tensor=" + std::to_string(coordinates.tensor) +
          "&session=" + options_.registration.session,
      [this](std::string_view bytes) {
        if (stage_ != Stage::kRunning) return;
        stream_failures_ = 0;
        if (!asking_) hasten();
        // One that is too long ends the stream on its next silence; responses still bring
        // assignments.
        (void)stream_.add(bytes, [this](const EventReader::Event& event) { hear(event); });
        if (stage_ == Stage::kRunning) confirmed();
      },
      [this](const HttpResult& response) { stream_ended(response); });
}

/// The server is there: what has been put off need not wait for its time. A stream that was there
/// when a request failed shows less, as where connections break: so that is not at once.
void ServerSession::hasten() {
  const Instant now = clock_.now();
  const bool is_new = std::exchange(stream_is_new_, false);
  if (!is_new && failures_ == 0) return;
  next_try_ = std::min(next_try_, is_new ? now : std::max(now, failed_ + kPauseWhileHeard));
}

void ServerSession::job_answered(const HttpResult& response) {
  asking_ = false;
  if (is_outage(response)) return failed(response, "register the job");
  answered();
  if (!is_success(response)) {
    unauthorized_ = response.status == 401 || response.status == 403;
    return refused(response, "the job cannot be registered");
  }
  if (const auto read = parse_rank_response(response.body);
      read.ok() && !read->specification.empty()) {
    options_.registration.specification = read->specification;
  }
  stage_ = Stage::kRank;
  tick();
}

void ServerSession::rank_answered(const HttpResult& response) {
  asking_ = false;
  if (is_outage(response)) return failed(response, "register this rank");
  answered();
  if (!is_success(response)) {
    if (!lost_registration(response, "this rank cannot be registered")) {
      begin_again(Stage::kRank);
      refused(response, "this rank cannot be registered");
    }
    return;
  }
  failures_ = gathered_ = 0;
  unauthorized_ = false;
  told_.erase("place");
  told_.erase("refused");
  stage_ = Stage::kRunning;
  heard_ = clock_.now();
  const auto read = parse_rank_response(response.body);
  if (!read.ok()) {
    log_once("assignments",
             "the server sent assignments that cannot be read: " + read.error().text());
  } else {
    RankRegistration& mine = options_.registration;
    if (read->incarnation != mine.incarnation) {
      // What was measured by assignments of another life says nothing of this one's.
      known_ = known_epoch_ = 0;
      reports_dropped_ += reports_.size();
      reports_.clear();
      listener_.forget();
    }
    mine.incarnation = read->incarnation;
    mine.start = read->start;
    take_assignments(*read);
  }
  confirmed();
  tick();
}

void ServerSession::report_answered(const HttpResult& response) {
  asking_ = false;
  IterationReport report = *std::exchange(sending_, std::nullopt);
  if (is_outage(response)) {
    reports_.push_front(std::move(report));
    return failed(response, "report an iteration");
  }
  answered();
  if (is_success(response)) {
    ++reports_sent_;
    failures_ = 0;
    heard_ = clock_.now();
    if (!take(response.body)) return;
    confirmed();
    return tick();
  }
  const bool may_be_sent_later = response.status == 401 || response.status == 403;
  if (may_be_sent_later) {
    reports_.push_front(std::move(report));
  } else {
    ++reports_dropped_;
  }
  if (lost_registration(response, "the server refuses this rank")) return;
  log_once("report", "the server refuses a report: " + error_message(response));
}

void ServerSession::stream_ended(const HttpResult& response) {
  listening_ = false;
  ++stream_failures_;
  next_listen_ = clock_.now() + pause(stream_failures_);
  if (stage_ != Stage::kRunning || response.status == 200) return;
  if (is_outage(response)) {
    // Whether the server is gone, the next report shows; without one, registering again does.
    if (!asking_ && reports_.empty()) begin_again(Stage::kRank);
  } else if (response.status == 404 || response.status == 409) {
    if (!asking_) begin_again(response.status == 404 ? Stage::kJob : Stage::kRank);
  } else {
    log_once("events", "the server refuses its events: " + error_message(response));
  }
}

void ServerSession::hear(const EventReader::Event& event) {
  if (event.name == "assignments" && stage_ == Stage::kRunning) (void)take(event.data);
}

bool ServerSession::take(const std::string& text) {
  const auto response = parse_rank_response(text);
  if (!response.ok()) {
    log_once("assignments",
             "the server sent assignments that cannot be read: " + response.error().text());
    return true;
  }
  if (!response->incarnation.empty() &&
      response->incarnation != options_.registration.incarnation) {
    begin_again(Stage::kRank);
    return false;
  }
  if (!response->energy_refused.empty()) {
    log_once("energy", "the server counts what this GPU reports as not measured: " +
                           response->energy_refused);
  }
  take_assignments(*response);
  return true;
}

void ServerSession::take_assignments(const RankResponse& response) {
  if (response.assignments.empty() || response.epoch < known_epoch_) return;
  if (response.epoch > known_epoch_) known_ = 0;
  known_epoch_ = response.epoch;
  for (const StageAssignment& one : response.assignments) known_ = std::max(known_, one.version);
  listener_.assignments(response.assignments);
}

bool ServerSession::lost_registration(const HttpResult& response, const std::string& what) {
  switch (response.status) {
    case 401:
    case 403:
      begin_again(Stage::kRank);
      unauthorized_ = true;
      refused(response, what);
      return true;
    case 404:
      begin_again(Stage::kJob);
      return true;
    case 409:
      begin_again(Stage::kRank);
      if (error_code(response) == "gathering") {
        const bool is_long = ++gathered_ > kShortGatherings;
        try_after(is_long ? kLongGathering : kGathering);
        failures_ = 0;
        log_once("place", "this rank waits for its place: " + error_message(response));
      } else if (failures_ > 6) {
        // The process before this one may only just have ended.
        log_once("place", "this rank's place is not to be had: " + error_message(response));
      }
      return true;
    default:
      return false;
  }
}

/// What the stream says is of a registration that stands no more.
void ServerSession::begin_again(Stage stage) {
  drop_stream_ = listening_;
  stage_ = stage;
  ++failures_;
  try_after(pause(failures_));
}

void ServerSession::answered() {
  if (told_.erase("away") > 0) listener_.log("the server responds again");
}

void ServerSession::confirmed() {
  confirmed_ = clock_.now();
  answered();
  if (!std::exchange(governed_, true)) listener_.governed(true);
}

void ServerSession::failed(const HttpResult& response, const std::string& what) {
  ++failures_;
  failed_ = clock_.now();
  try_after(pause(failures_));
  log_once("away", "cannot " + what + ": " + error_message(response) +
                       "; training goes on, at free clocks after " +
                       shortest(options_.patience.value) + " s, and this is tried again");
}

void ServerSession::refused(const HttpResult& response, const std::string& what) {
  try_after(kPersonsRetry);
  log_once("refused", what + ": " + error_message(response) +
                          "; training goes on, at free clocks after " +
                          shortest(options_.patience.value) + " s, and this is tried again");
}

Seconds ServerSession::pause(int failures) {
  const double doubled = options_.first_retry.value * std::exp2(std::clamp(failures - 1, 0, 20));
  // Ranks that lost their server at one moment do not come back at one moment.
  std::uniform_real_distribution<double> spread(0.75, 1.25);
  return Seconds{std::min(doubled, options_.longest_retry.value) * spread(random_)};
}

void ServerSession::log_once(const std::string& key, const std::string& text) {
  if (told_.insert(key).second) listener_.log(text);
}

}  // namespace harpe
