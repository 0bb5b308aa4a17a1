#pragma once
/// \file
/// The session of a rank with its server. It registers the job, then the rank; it sends reports and
/// receives assignments in responses and in a stream of events. Failed requests are retried, at
/// growing intervals, as long as training runs.
///
///   job -> rank -> running
///    ^       |        |      the server does not know the job (404), the place was lost (409), the
///    +-------+--------+      token is not valid (401, 403), or the job has another incarnation
///
/// Governed. A rank is governed by its server if the server has confirmed it within `patience`: by
/// a successful registration or report, or, while the rank is registered, by any bytes of the
/// stream. Other responses and silence do not confirm it; after `patience`, clocks are set free. A
/// rank with nothing to report registers again from time to time, so that it is confirmed during
/// long iterations and the server knows that it is alive.
///
/// A rank that registers while another start of training holds the job is requested to try again
/// soon. A refusal that only the user can fix (a wrong token, an invalid specification) is logged
/// once and retried about once a minute, or at once with a new token.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/training/client/event_reader.h"
#include "harpe/training/wire/rank_events.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {

struct ServerSessionOptions {
  std::string job;                ///< id
  std::string spec;               ///< JSON to register the job with
  RankRegistration registration;  ///< with its session
  Seconds patience{30};           ///< time without confirmation until clocks are set free
  Seconds first_retry{0.5}, longest_retry{30};
};

/// The time at which a failed request is sent again. The pause doubles with each failure in a row.
/// It is random, so that ranks that lost their server at the same time do not all return at once.
class Retry {
 public:
  Retry(Seconds first, Seconds longest, Instant now, std::minstd_rand random)
      : first_(first), longest_(longest), random_(random), next_(now) {}

  Instant next() const { return next_; }
  int failures() const { return failures_; }  ///< in a row
  Instant failed() const { return failed_; }  ///< time of the last failure
  void fail(Instant now);
  void succeed() { failures_ = 0; }
  void wait_until(Instant next) { next_ = next; }

 private:
  Seconds first_, longest_;
  std::minstd_rand random_;
  Instant next_, failed_;
  int failures_ = 0;
};

/// Reports that wait to be sent, oldest first, and the report in flight. If too many wait, such as
/// during a long outage of the server, the oldest are dropped.
class ReportQueue {
 public:
  static constexpr std::size_t kMostReports = 256;

  void add(IterationReport report);
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size() + (sending_ ? 1 : 0); }
  /// Returns the oldest waiting report, which is in flight from now on.
  IterationReport& send();
  /// Notes that the report in flight was sent.
  void note_sent();
  void note_dropped();
  void send_again() { waiting_.push_front(*std::exchange(sending_, std::nullopt)); }
  /// Drops all waiting reports.
  void clear();

  std::uint64_t sent() const { return sent_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::deque<IterationReport> waiting_;
  std::optional<IterationReport> sending_;
  std::uint64_t sent_ = 0, dropped_ = 0;
};

/// The time at which a rank with nothing to report registers again, to show that it is alive.
class KeepAlive {
 public:
  /// A rank that is silent for 60 s may lose its place (`Job::kSilence`).
  static constexpr Seconds kLongest{20};

  KeepAlive(Seconds patience, Instant now, std::minstd_rand random);
  Instant next() const { return soon_ ? std::min(heard_ + period_, *soon_) : heard_ + period_; }
  void note_heard(Instant now) { heard_ = now; }  ///< for a request that has succeeded
  void note_asked() { soon_.reset(); }            ///< for a registration in flight
  /// Makes a registration due soon, at a random time: thousands of ranks must not register at once.
  void hasten(Instant now);

 private:
  Seconds period_;
  Instant heard_;
  std::optional<Instant> soon_;
  std::minstd_rand random_;
};

/// The stream in which the server sends assignments. It is opened again after it has ended.
class AssignmentStream {
 public:
  AssignmentStream(net::HttpLink& link, Clock& clock, const Retry& retry)
      : link_(link), clock_(clock), retry_(retry) {}

  void open(const std::string& path, std::function<void(std::string_view)> hear,
            std::function<void(const net::HttpResult&)> ended);
  /// Marks the stream to be closed by `close_dropped`, because its own callbacks must not close it.
  void drop() { is_dropped_ = is_open_; }
  void close_dropped();
  /// \param is_wanted  true if the stream should be open
  Instant next(bool is_wanted) const;
  bool is_due(bool is_wanted) const { return is_wanted && !is_open_ && clock_.now() >= next(true); }
  void read(std::string_view bytes, const EventReader::Listener& listener);
  /// Returns true once for each stream that was opened.
  bool take_new() { return std::exchange(is_new_, false); }

 private:
  net::HttpLink& link_;
  Clock& clock_;
  Retry retry_;
  EventReader reader_;
  bool is_open_ = false, is_dropped_ = false;
  bool is_new_ = false;  ///< true if `take_new` has not been called since it was opened
};

/// A log that writes only the first line of each key, until the key is forgotten.
class OnceLog {
 public:
  explicit OnceLog(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
  void write(const std::string& key, const std::string& text) {
    if (told_.insert(key).second) log_(text);
  }
  /// Forgets a key. Returns true if a line with this key was written.
  bool forget(const std::string& key) { return told_.erase(key) > 0; }

 private:
  std::function<void(const std::string&)> log_;
  std::set<std::string> told_;
};

/// Not thread-safe. Calls its listeners from `tick` and from `HttpLink::step`.
class ServerSession {
 public:
  struct Listener {
    std::function<void(const std::vector<StageAssignment>&)> assignments;
    /// Called when the job has another incarnation: no earlier assignments hold any more.
    std::function<void()> forget;
    std::function<void(const std::string&)> log;
    /// Called with true when the server begins to govern the rank, and with false when clocks are
    /// set free after `patience`.
    std::function<void(bool)> governed;
    /// Returns `IterationReport::reached` by the assignments received until now. If empty, reports
    /// do not state it.
    std::function<std::int64_t()> reached;
  };

  ServerSession(ServerSessionOptions options, net::HttpLink& link, Clock& clock, Listener listener);

  /// Starts the requests that are due, and sets clocks free after `patience`.
  void tick();
  /// Returns the time at which `tick` must be called next, if nothing arrives before.
  Instant next() const;

  /// Adds a report to send. Fills in its `session`, `incarnation`, `known`, `epoch` and `reached`.
  void report(IterationReport report);
  const ReportQueue& reports() const { return reports_; }

  /// Sets the pause in which training waits; 0 if it does not wait. The server is informed soon, at
  /// a random time, so that thousands of ranks do not send at once.
  void pausing(std::uint64_t pause);
  /// Reports once, after all reports, that training has ended in order.
  void end() { ending_ = true; }
  /// Returns true if the end has been reported, or if the rank is not registered.
  bool ended() const { return end_told_ || stage_ != Stage::kRunning; }

  bool registered() const { return stage_ == Stage::kRunning; }
  /// Returns the life of the job in which the rank last registered; empty if it never has.
  const std::string& incarnation() const { return options_.registration.incarnation; }

  static constexpr Seconds kPersonsRetry{60};

 private:
  enum class Stage : unsigned char { kJob, kRank, kRunning };

  void register_job();
  void register_rank();
  void ask(Instant now);
  void send_report();
  void send_end();
  void listen();
  bool may_listen() const { return stage_ == Stage::kRunning && !end_told_; }
  void job_answered(const net::HttpResult& response);
  void rank_answered(const net::HttpResult& response);
  void report_answered(const net::HttpResult& response);
  void stream_ended(const net::HttpResult& response);
  void hear(std::string_view bytes);

  /// Handles a response or an event. Returns false if it is of another life of the job.
  bool take(const std::string& text);
  void take_assignments(const RankResponse& response);
  void begin_again(Stage stage);
  void answered();
  void confirmed();
  /// Handles a response that ends the registration. Returns false if the response does not.
  bool lost_registration(const net::HttpResult& response, const std::string& what);
  /// Handles a missing response, or one that decides nothing (5xx, 429): tries again later.
  void failed(const net::HttpResult& response, const std::string& what);
  void refused(const net::HttpResult& response, const std::string& what);

  ServerSessionOptions options_;
  const std::string path_;  ///< of the job
  net::HttpLink& link_;
  Clock& clock_;
  Listener listener_;
  OnceLog log_;

  Stage stage_ = Stage::kJob;
  bool asking_ = false;  ///< true if a registration, a report, or the end is in flight
  bool ending_ = false, end_told_ = false;
  Retry retry_;       ///< of these requests
  int gathered_ = 0;  ///< responses in a row that other ranks of its start are missing
  bool unauthorized_ = false;
  bool governed_ = false;
  Instant confirmed_;  ///< time of the last confirmation
  KeepAlive keep_alive_;
  AssignmentStream stream_;
  ReportQueue reports_;
  std::uint64_t known_ = 0, known_epoch_ = 0;  ///< of the newest assignments
};

/// Returns the message of an error response ({"error": {"code", "message"}}), cut to one readable
/// line; the status if it has none.
std::string error_message(const net::HttpResult& response);

}  // namespace harpe::training
