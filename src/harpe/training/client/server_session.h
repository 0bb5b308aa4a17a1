#pragma once
/// \file
/// What a rank and its server say to each other: the job is registered, then the rank; reports go
/// up, assignments come down by responses and by a stream of events. Whatever fails is tried again,
/// ever more seldom, for as long as training runs.
///
///   job -> rank -> running
///    ^       |        |      the server does not know the job (404), the place was lost (409), the
///    +-------+--------+      token is not good (401, 403), or the job is another one by now
///
/// Governed. A rank is governed by its server as long as it was confirmed within `patience`: by a
/// success of a registration or a report, or, while its registration stands, by what comes over the
/// stream. Whatever else it hears, and silence, let that run out, and clocks are free. So that it
/// is confirmed however long an iteration takes, and the server hears of it, a rank that has
/// nothing to report registers again now and then.
///
/// A rank that comes while another start of training holds the job is asked to try again soon.
/// Refusals that only a person can mend (a wrong token, a specification that makes no sense) are
/// logged once and tried again once a minute or so, since people do mend them; with a new token at
/// once.

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
  Seconds patience{30};           ///< without being confirmed before clocks are set free
  Seconds first_retry{0.5}, longest_retry{30};
};

/// The time at which a request that failed is sent again: after pauses that double with each
/// failure in a row, and differ from rank to rank, so that ranks that lost their server at one
/// moment do not return at one moment.
class Retry {
 public:
  Retry(Seconds first, Seconds longest, Instant now, std::minstd_rand random)
      : first_(first), longest_(longest), random_(random), next_(now) {}

  Instant next() const { return next_; }
  int failures() const { return failures_; }  ///< in a row
  Instant failed() const { return failed_; }  ///< the last of them
  void fail(Instant now);
  void succeed() { failures_ = 0; }
  void wait_until(Instant next) { next_ = next; }

 private:
  Seconds first_, longest_;
  std::minstd_rand random_;
  Instant next_, failed_;
  int failures_ = 0;
};

/// Reports that wait to be sent, oldest first, and the one that is on its way. If too many wait (a
/// server away for long), the oldest are dropped.
class ReportQueue {
 public:
  static constexpr std::size_t kMostReports = 256;

  void add(IterationReport report);
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size() + (sending_ ? 1 : 0); }
  /// Takes the oldest report out, to be sent.
  IterationReport& send();
  /// Ends the sending of that report.
  void note_sent();
  void note_dropped();
  void send_again() { waiting_.push_front(*std::exchange(sending_, std::nullopt)); }
  /// Drops all that wait.
  void clear();

  std::uint64_t sent() const { return sent_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::deque<IterationReport> waiting_;
  std::optional<IterationReport> sending_;
  std::uint64_t sent_ = 0, dropped_ = 0;
};

/// The time at which a rank that has nothing to report registers again, so that its server hears of
/// it.
class KeepAlive {
 public:
  /// A rank that has not been heard of for 60 s may lose its place (`Job::kSilence`).
  static constexpr Seconds kLongest{20};

  KeepAlive(Seconds patience, Instant now, std::minstd_rand random);
  Instant next() const { return soon_ ? std::min(heard_ + period_, *soon_) : heard_ + period_; }
  void note_heard(Instant now) { heard_ = now; }  ///< a request has succeeded
  void note_asked() { soon_.reset(); }            ///< a registration is on its way
  /// Registers soon, of thousands of ranks not all at one moment.
  void hasten(Instant now);

 private:
  Seconds period_;
  Instant heard_;
  std::optional<Instant> soon_;
  std::minstd_rand random_;
};

/// The stream by which the server sends assignments. It is opened again after it has ended.
class AssignmentStream {
 public:
  AssignmentStream(net::HttpLink& link, Clock& clock, const Retry& retry)
      : link_(link), clock_(clock), retry_(retry) {}

  void open(const std::string& path, std::function<void(std::string_view)> hear,
            std::function<void(const net::HttpResult&)> ended);
  /// Has `close_dropped` close the stream: its own callbacks must not.
  void drop() { is_dropped_ = is_open_; }
  void close_dropped();
  /// \param is_wanted  whether it is to be open
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
  bool is_new_ = false;  ///< `take_new` has not been called since it was opened
};

/// A log that has each line once, by its key, until the key is forgotten.
class OnceLog {
 public:
  explicit OnceLog(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
  void write(const std::string& key, const std::string& text) {
    if (told_.insert(key).second) log_(text);
  }
  /// Returns true if there was a line by this key.
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
    /// The job is another one than that of all assignments so far: they hold no more.
    std::function<void()> forget;
    std::function<void(const std::string&)> log;
    /// Clocks are the server's, or (false) free: nothing has confirmed that for `patience`.
    std::function<void(bool)> governed;
    /// `IterationReport::reached`, by the assignments taken until now; empty: not said.
    std::function<std::int64_t()> reached;
  };

  ServerSession(ServerSessionOptions options, net::HttpLink& link, Clock& clock, Listener listener);

  /// Starts what is due.
  void tick();
  /// When `tick` has something to do, if nothing comes in before.
  Instant next() const;

  /// Takes a report to send; its `session`, `known` and `reached` are filled in.
  void report(IterationReport report);
  const ReportQueue& reports() const { return reports_; }

  /// Training waits in this pause; 0: it does not. The server hears of it soon, from thousands of
  /// ranks not at one moment.
  void pausing(std::uint64_t pause);
  /// Training has ended as it should: says so once, behind all reports.
  void end() { ending_ = true; }
  /// Whether the server knows, or there is nothing to report to it.
  bool ended() const { return end_told_ || stage_ != Stage::kRunning; }

  bool registered() const { return stage_ == Stage::kRunning; }
  /// The life of the job in which it registered last; empty: it never has.
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

  /// What a response or an event holds for this rank; false: it is of another life of the job.
  bool take(const std::string& text);
  void take_assignments(const RankResponse& response);
  void begin_again(Stage stage);
  void answered();
  void confirmed();
  /// Handles a response that ends the registration. Returns false if the response does not.
  bool lost_registration(const net::HttpResult& response, const std::string& what);
  /// Handles a missing response, or one that settles nothing (5xx, 429): tries again later.
  void failed(const net::HttpResult& response, const std::string& what);
  void refused(const net::HttpResult& response, const std::string& what);

  ServerSessionOptions options_;
  const std::string path_;  ///< of the job
  net::HttpLink& link_;
  Clock& clock_;
  Listener listener_;
  OnceLog log_;

  Stage stage_ = Stage::kJob;
  bool asking_ = false;  ///< a request of the stage, a report, or the end is on its way
  bool ending_ = false, end_told_ = false;
  Retry retry_;       ///< of it
  int gathered_ = 0;  ///< times in a row that others of its start were waited for
  bool unauthorized_ = false;
  bool governed_ = false;
  Instant confirmed_;  ///< while governed: the last time
  KeepAlive keep_alive_;
  AssignmentStream stream_;
  ReportQueue reports_;
  std::uint64_t known_ = 0, known_epoch_ = 0;  ///< of the newest assignments
};

/// The message of an error response ({"error": {"code", "message"}}), cut to one readable line; the
/// status where it has none.
std::string error_message(const net::HttpResult& response);

}  // namespace harpe::training
