#include "harpe/training/client/server_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr std::size_t kLongestMessage = 300;
/// Intervals between requests of a rank whose start of training is gathering: at first, and later.
constexpr Seconds kGathering{1}, kLongGathering{5};
constexpr int kShortGatherings = 60;
constexpr double kShareOfPatience = 2.0 / 3;
constexpr Seconds kSayPausing{1};
constexpr Seconds kFarOff{3600};
constexpr Seconds kPauseWhileHeard{5};  // after a failure, while the stream is alive

bool is_success(const net::HttpResult& response) {
  return response.status >= 200 && response.status < 300;
}

/// Returns true if only waiting can help. Status 421: the job is moving to another server.
bool is_outage(const net::HttpResult& response) {
  return response.status == 0 || response.status == 421 || response.status == 429 ||
         response.status >= 500;
}

/// Returns the code of an error response; empty if it has none.
std::string error_code(const net::HttpResult& response) {
  const auto document = parse_json(response.body, "the response");
  if (!document.ok()) return {};
  const JsonValue* error = document->find("error");
  const JsonValue* code = error == nullptr ? nullptr : error->find("code");
  return code == nullptr ? std::string() : code->string;
}

std::minstd_rand random_of(const ServerSessionOptions& options) {
  return std::minstd_rand(static_cast<std::minstd_rand::result_type>(
      std::hash<std::string>{}(options.registration.session) | 1));
}

}  // namespace

std::string error_message(const net::HttpResult& response) {
  if (response.status == 0) return response.failure;
  std::string message;
  if (const auto document = parse_json(response.body, "the response"); document.ok()) {
    const JsonValue* error = document->find("error");
    const JsonValue* text = error == nullptr ? nullptr : error->find("message");
    if (text != nullptr) message = text->string;
  }
  std::erase_if(message, [](char c) { return is_control(c) && c != '\n'; });
  std::ranges::replace(message, '\n', ' ');
  if (message.size() > kLongestMessage) message.resize(kLongestMessage);
  const std::string status = "status " + std::to_string(response.status);
  return message.empty() ? status : message + " (" + status + ")";
}

void Retry::fail(Instant now) {
  ++failures_;
  failed_ = now;
  const double doubled = first_.value * std::exp2(std::clamp(failures_ - 1, 0, 20));
  std::uniform_real_distribution<double> spread(0.75, 1.25);
  next_ = now + Seconds{std::min(doubled, longest_.value) * spread(random_)};
}

void ReportQueue::add(IterationReport report) {
  if (waiting_.size() >= kMostReports) {
    waiting_.pop_front();
    ++dropped_;
  }
  waiting_.push_back(std::move(report));
}

IterationReport& ReportQueue::send() {
  sending_ = std::move(waiting_.front());
  waiting_.pop_front();
  return *sending_;
}

void ReportQueue::note_sent() {
  sending_.reset();
  ++sent_;
}

void ReportQueue::note_dropped() {
  sending_.reset();
  ++dropped_;
}

void ReportQueue::clear() {
  dropped_ += waiting_.size();
  waiting_.clear();
}

KeepAlive::KeepAlive(Seconds patience, Instant now, std::minstd_rand random)
    : period_(std::clamp(patience * kShareOfPatience, Seconds{1}, kLongest)),
      heard_(now),
      random_(random) {}

void KeepAlive::hasten(Instant now) {
  std::uniform_real_distribution<double> spread(0, kSayPausing.value);
  soon_ = now + Seconds{spread(random_)};
}

void AssignmentStream::open(const std::string& path, std::function<void(std::string_view)> hear,
                            std::function<void(const net::HttpResult&)> ended) {
  is_open_ = is_new_ = true;
  reader_ = EventReader();
  link_.listen(path, std::move(hear),
               [this, ended = std::move(ended)](const net::HttpResult& response) {
                 is_open_ = false;
                 retry_.fail(clock_.now());
                 ended(response);
               });
}

void AssignmentStream::close_dropped() {
  if (!std::exchange(is_dropped_, false)) return;
  link_.stop_listening();
  is_open_ = false;
}

Instant AssignmentStream::next(bool is_wanted) const {
  if (is_dropped_) return clock_.now();
  return is_wanted && !is_open_ ? retry_.next() : clock_.now() + kFarOff;
}

void AssignmentStream::read(std::string_view bytes, const EventReader::Listener& listener) {
  retry_.succeed();
  // After an event that is too long, the stream ends at its next silence. Responses still have
  // assignments.
  (void)reader_.add(bytes, listener);
}

ServerSession::ServerSession(ServerSessionOptions options, net::HttpLink& link, Clock& clock,
                             Listener listener)
    : options_(std::move(options)),
      path_("/v1/jobs/" + options_.job),
      link_(link),
      clock_(clock),
      listener_(std::move(listener)),
      log_(listener_.log),
      retry_(options_.first_retry, options_.longest_retry, clock.now(), random_of(options_)),
      confirmed_(clock.now()),
      keep_alive_(options_.patience, clock.now(), random_of(options_)),
      stream_(link, clock, retry_) {}

void ServerSession::pausing(std::uint64_t pause) {
  if (std::exchange(options_.registration.pausing, pause) == pause) return;
  keep_alive_.note_asked();
  if (pause != 0) keep_alive_.hasten(clock_.now());
}

Instant ServerSession::next() const {
  Instant next = clock_.now() + kFarOff;
  if (!asking_ && !end_told_) {
    const bool asks = stage_ != Stage::kRunning || !reports_.empty() || ending_;
    next = asks ? retry_.next() : std::max(retry_.next(), keep_alive_.next());
  }
  next = std::min(next, stream_.next(may_listen()));
  if (governed_) next = std::min(next, confirmed_ + options_.patience);
  return next;
}

void ServerSession::tick() {
  const Instant now = clock_.now();
  stream_.close_dropped();
  if (governed_ && now >= confirmed_ + options_.patience) {
    governed_ = false;
    listener_.governed(false);
  }
  if (unauthorized_ && !asking_ && link_.renew_token()) retry_.wait_until(now);
  if (!asking_ && !end_told_ && now >= retry_.next()) ask(now);
  if (stream_.is_due(may_listen())) listen();
}

void ServerSession::report(IterationReport report) {
  report.session = options_.registration.session;
  reports_.add(std::move(report));
}

void ServerSession::register_job() {
  asking_ = true;
  link_.send("PUT", path_, options_.spec,
             [this](const net::HttpResult& response) { job_answered(response); });
}

void ServerSession::register_rank() {
  asking_ = true;
  keep_alive_.note_asked();
  link_.send("POST", path_ + "/ranks", rank_registration_json(options_.registration),
             [this](const net::HttpResult& response) { rank_answered(response); });
}

/// Sends the next request, if there is one.
void ServerSession::ask(Instant now) {
  if (stage_ == Stage::kJob) return register_job();
  if (stage_ != Stage::kRunning) return register_rank();
  if (!reports_.empty()) return send_report();
  if (ending_) return send_end();
  if (now >= keep_alive_.next()) register_rank();
}

void ServerSession::send_report() {
  asking_ = true;
  IterationReport& report = reports_.send();
  report.known = known_;
  report.reached = listener_.reached ? listener_.reached() : -1;
  report.epoch = known_epoch_;
  report.incarnation = options_.registration.incarnation;
  link_.send("POST", path_ + "/reports", iteration_report_json(report),
             [this](const net::HttpResult& response) { report_answered(response); });
}

void ServerSession::send_end() {
  asking_ = true;
  const RankEnd end{.coordinates = options_.registration.coordinates,
                    .session = options_.registration.session};
  link_.send("POST", path_ + "/end", rank_end_json(end), [this](const net::HttpResult& response) {
    asking_ = false;
    if (is_outage(response)) return failed(response, "say that training has ended");
    // A job or place that this rank has lost needs no end.
    end_told_ = true;
  });
}

void ServerSession::listen() {
  const RankCoordinates coordinates = options_.registration.coordinates;
  stream_.open(
      path_ + "/events?data=" + std::to_string(coordinates.data) + "&stage=" +
          std::to_string(coordinates.stage) + "&tensor=" + std::to_string(coordinates.tensor) +
          "&session=" + options_.registration.session,
      [this](std::string_view bytes) { hear(bytes); },
      [this](const net::HttpResult& response) { stream_ended(response); });
}

void ServerSession::hear(std::string_view bytes) {
  if (stage_ != Stage::kRunning) return;
  stream_.read(bytes, [this](const EventReader::Event& event) {
    if (event.name == "assignments" && stage_ == Stage::kRunning) (void)take(event.data);
  });
  // The server is alive, so delayed requests need not wait longer. A stream that was open when a
  // request failed proves less, for example if connections break, so then they still wait a little.
  const bool is_new = !asking_ && stream_.take_new();
  if (!asking_ && stage_ == Stage::kRunning && (is_new || retry_.failures() > 0)) {
    const Instant now = clock_.now();
    const Instant then = is_new ? now : std::max(now, retry_.failed() + kPauseWhileHeard);
    retry_.wait_until(std::min(retry_.next(), then));
  }
  if (stage_ == Stage::kRunning) confirmed();
}

void ServerSession::job_answered(const net::HttpResult& response) {
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

void ServerSession::rank_answered(const net::HttpResult& response) {
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
  retry_.succeed();
  gathered_ = 0;
  unauthorized_ = false;
  log_.forget("place");
  log_.forget("refused");
  stage_ = Stage::kRunning;
  keep_alive_.note_heard(clock_.now());
  const auto read = parse_rank_response(response.body);
  if (!read.ok()) {
    log_.write("assignments",
               "the assignments from the server cannot be read: " + read.error().text());
  } else {
    RankRegistration& mine = options_.registration;
    if (read->incarnation != mine.incarnation) {
      // Measurements by assignments of another life of the job do not apply to this one.
      known_ = known_epoch_ = 0;
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

void ServerSession::report_answered(const net::HttpResult& response) {
  asking_ = false;
  if (is_outage(response)) {
    reports_.send_again();
    return failed(response, "report an iteration");
  }
  answered();
  if (is_success(response)) {
    reports_.note_sent();
    retry_.succeed();
    keep_alive_.note_heard(clock_.now());
    if (!take(response.body)) return;
    confirmed();
    return tick();
  }
  const bool may_be_sent_later = response.status == 401 || response.status == 403;
  may_be_sent_later ? reports_.send_again() : reports_.note_dropped();
  if (lost_registration(response, "the server refuses this rank")) return;
  log_.write("report", "the server refuses a report: " + error_message(response));
}

void ServerSession::stream_ended(const net::HttpResult& response) {
  if (stage_ != Stage::kRunning || response.status == 200) return;
  if (is_outage(response)) {
    // The next report shows if the server is gone; without reports, registering again shows it.
    if (!asking_ && reports_.empty()) begin_again(Stage::kRank);
  } else if (response.status == 404 || response.status == 409) {
    if (!asking_) begin_again(response.status == 404 ? Stage::kJob : Stage::kRank);
  } else {
    log_.write("events", "the server refuses its events: " + error_message(response));
  }
}

bool ServerSession::take(const std::string& text) {
  const auto response = parse_rank_response(text);
  if (!response.ok()) {
    log_.write("assignments",
               "the assignments from the server cannot be read: " + response.error().text());
    return true;
  }
  if (!response->incarnation.empty() &&
      response->incarnation != options_.registration.incarnation) {
    begin_again(Stage::kRank);
    return false;
  }
  if (!response->energy_refused.empty()) {
    log_.write("energy",
               "the server ignores the energy that this GPU reports: " + response->energy_refused);
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

bool ServerSession::lost_registration(const net::HttpResult& response, const std::string& what) {
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
        retry_.wait_until(clock_.now() + (is_long ? kLongGathering : kGathering));
        retry_.succeed();
        log_.write("place", "this rank waits until it can register: " + error_message(response));
      } else if (retry_.failures() > 6) {
        // The previous process may have ended only just now.
        log_.write("place", "this rank cannot register yet: " + error_message(response));
      }
      return true;
    default:
      return false;
  }
}

/// Starts the registration again. The stream belongs to the lost registration.
void ServerSession::begin_again(Stage stage) {
  stream_.drop();
  stage_ = stage;
  retry_.fail(clock_.now());
}

void ServerSession::answered() {
  if (log_.forget("away")) listener_.log("the server responds again");
}

void ServerSession::confirmed() {
  confirmed_ = clock_.now();
  answered();
  if (!std::exchange(governed_, true)) listener_.governed(true);
}

void ServerSession::failed(const net::HttpResult& response, const std::string& what) {
  retry_.fail(clock_.now());
  log_.write("away", "cannot " + what + ": " + error_message(response) +
                         "; training continues, at free clocks after " +
                         shortest(options_.patience.value) + " s, and Harpe tries again");
}

void ServerSession::refused(const net::HttpResult& response, const std::string& what) {
  retry_.wait_until(clock_.now() + kPersonsRetry);
  log_.write("refused", what + ": " + error_message(response) +
                            "; training continues, at free clocks after " +
                            shortest(options_.patience.value) + " s, and Harpe tries again");
}

}  // namespace harpe::training
