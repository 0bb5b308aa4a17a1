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

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/training/client/event_reader.h"
#include "harpe/training/wire/rank_events.h"
#include "harpe/training/wire/wire.h"

namespace harpe {

struct ServerSessionOptions {
  std::string job;                ///< id
  std::string spec;               ///< JSON to register the job with
  RankRegistration registration;  ///< with its session
  Seconds patience{30};           ///< without being confirmed before clocks are set free
  Seconds first_retry{0.5}, longest_retry{30};
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

  ServerSession(ServerSessionOptions options, HttpLink& link, Clock& clock, Listener listener);

  /// Starts what is due.
  void tick();
  /// When `tick` has something to do, if nothing comes in before.
  Instant next() const;

  /// Takes a report to send; its `session`, `known` and `reached` are filled in. Of too many that
  /// wait (a server away for long) the oldest are dropped.
  void report(IterationReport report);
  std::size_t waiting() const { return reports_.size() + (sending_ ? 1 : 0); }

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
  std::uint64_t reports_sent() const { return reports_sent_; }
  std::uint64_t reports_dropped() const { return reports_dropped_; }

  static constexpr std::size_t kMostReports = 256;
  static constexpr Seconds kPersonsRetry{60};
  /// A rank that has not been heard of for 60 s may lose its place (`Job::kSilence`).
  static constexpr Seconds kLongestUnheard{20};

 private:
  enum class Stage : unsigned char { kJob, kRank, kRunning };

  void register_job();
  void register_rank();
  void ask(Instant now);
  void send_report();
  void send_end();
  void listen();
  bool may_listen() const { return stage_ == Stage::kRunning && !listening_ && !end_told_; }
  void job_answered(const HttpResult& response);
  void rank_answered(const HttpResult& response);
  void report_answered(const HttpResult& response);
  void stream_ended(const HttpResult& response);
  void hear(const EventReader::Event& event);

  /// What a response or an event holds for this rank; false: it is of another life of the job.
  bool take(const std::string& text);
  void take_assignments(const RankResponse& response);
  void begin_again(Stage stage);
  void answered();
  void confirmed();
  void try_after(Seconds pause) { next_try_ = clock_.now() + pause; }
  void hasten();
  Seconds unheard() const;
  Instant keep_alive() const;
  /// Instead of a success; false: the response says nothing of the registration.
  bool lost_registration(const HttpResult& response, const std::string& what);
  /// No response, or one that is no response (5xx, 429): tries again later.
  void failed(const HttpResult& response, const std::string& what);
  void refused(const HttpResult& response, const std::string& what);
  Seconds pause(int failures);
  void log_once(const std::string& key, const std::string& text);
  std::string job_path() const { return "/v1/jobs/" + options_.job; }

  ServerSessionOptions options_;
  HttpLink& link_;
  Clock& clock_;
  Listener listener_;
  std::minstd_rand random_;

  Stage stage_ = Stage::kJob;
  bool asking_ = false;  ///< a request of the stage, a report, or the end is on its way
  bool ending_ = false, end_told_ = false;
  Instant next_try_;  ///< of it
  int failures_ = 0;  ///< in a row
  Instant failed_;    ///< the last of them
  int gathered_ = 0;  ///< times in a row that others of its start were waited for
  bool unauthorized_ = false;
  bool governed_ = false;
  Instant confirmed_;                   ///< while governed: the last time
  Instant heard_;                       ///< the last success of a request
  std::optional<Instant> say_pausing_;  ///< when the server is to hear that training waits
  bool listening_ = false;
  bool drop_stream_ = false;    ///< by the next tick: its own callbacks must not end it
  bool stream_is_new_ = false;  ///< nothing has come over it that a request could follow
  Instant next_listen_;
  int stream_failures_ = 0;
  EventReader stream_;
  std::deque<IterationReport> reports_;
  std::optional<IterationReport> sending_;
  std::uint64_t known_ = 0, known_epoch_ = 0;  ///< of the newest assignments
  std::uint64_t reports_sent_ = 0, reports_dropped_ = 0;
  std::set<std::string> told_;
};

/// The message of an error response ({"error": {"code", "message"}}), cut to one readable line; the
/// status where it has none.
std::string error_message(const HttpResult& response);

}  // namespace harpe
