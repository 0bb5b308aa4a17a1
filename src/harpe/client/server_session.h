#pragma once
/// \file
/// What a rank and its server tell each other: the job is registered, then the rank; reports go
/// up, orders come down by answers and by a stream of events. Whatever fails is tried again, ever
/// more seldom, for as long as training runs.
///
///   job -> rank -> running
///    ^       |        |      the server does not know the job (404) or the place was lost (409)
///    +-------+--------+
///
/// Refusals that only a person can mend (a wrong token, another job of that name, a place that is
/// taken) are told once and tried again once a minute or so, since people do mend them.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/client/event_reader.h"
#include "harpe/client/http_link.h"
#include "harpe/job/rank_events.h"

namespace harpe {

struct ServerSessionOptions {
  std::string job;                ///< id
  std::string spec;               ///< JSON to register the job with
  RankRegistration registration;  ///< with its session
  Seconds patience{30};           ///< without a server before clocks are set free
  Seconds first_retry{0.5}, longest_retry{30};
};

/// Not thread-safe. Calls its listeners from `tick` and from `HttpLink::step`.
class ServerSession {
 public:
  struct Listener {
    std::function<void(const std::vector<StageOrders>&)> orders;
    std::function<void(const std::string&)> notice;
    /// Clocks are the server's, or (false) free: it has been away for `patience`.
    std::function<void(bool)> governed;
  };

  ServerSession(ServerSessionOptions options, HttpLink& link, Clock& clock, Listener listener);

  /// Starts what is due.
  void tick();
  /// When `tick` has something to do, if nothing comes in before.
  Instant next() const;

  /// Takes a report to send; its `session` and `known` are filled in. Of too many that wait (a
  /// server away for long) the oldest are dropped.
  void report(IterationReport report);
  std::size_t waiting() const { return reports_.size() + (sending_ ? 1 : 0); }

  /// Training has ended as it should: says so once, behind all reports.
  void end() { ending_ = true; }
  /// Whether the server knows, or there is nothing that it could be told.
  bool ended() const { return end_told_ || stage_ != Stage::kRunning; }

  bool registered() const { return stage_ == Stage::kRunning; }
  std::uint64_t reports_sent() const { return reports_sent_; }
  std::uint64_t reports_dropped() const { return reports_dropped_; }

  static constexpr std::size_t kMostReports = 256;
  static constexpr Seconds kPersonsRetry{60};

 private:
  enum class Stage : unsigned char { kJob, kRank, kRunning };

  void register_job();
  void register_rank();
  void send_report();
  void send_end();
  void listen();
  void job_answered(const HttpAnswer& answer);
  void rank_answered(const HttpAnswer& answer);
  void report_answered(const HttpAnswer& answer);
  void stream_ended(const HttpAnswer& answer);
  void hear(const EventReader::Event& event);

  void take_orders(const std::string& text);
  void begin_again(Stage stage);
  void answered();
  /// No answer, or one that is no answer (5xx, 429): tries again later.
  void failed(const HttpAnswer& answer, const std::string& what);
  void refused(const HttpAnswer& answer, const std::string& what);
  Seconds pause(int failures);
  void notice_once(const std::string& key, const std::string& text);
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
  std::optional<Instant> away_since_;
  bool governed_ = false;
  bool listening_ = false;
  Instant next_listen_;
  int stream_failures_ = 0;
  EventReader stream_;
  std::deque<IterationReport> reports_;
  std::optional<IterationReport> sending_;
  std::uint64_t known_ = 0, reports_sent_ = 0, reports_dropped_ = 0;
  std::set<std::string> told_;
};

/// The message of an error answer ({"error": {"code", "message"}}), cut to one readable line; the
/// status where it has none.
std::string error_message(const HttpAnswer& answer);

}  // namespace harpe
