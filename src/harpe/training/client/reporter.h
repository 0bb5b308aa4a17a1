#pragma once
/// \file
/// The client's thread for the server and the agent: it sends reports, receives assignments and
/// renews the lease.

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/measure/energy_estimator.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/clock_link.h"
#include "harpe/training/client/clock_readings.h"
#include "harpe/training/client/iteration_log.h"
#include "harpe/training/client/pause_board.h"
#include "harpe/training/client/server_session.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// An estimator of the power of each kind of instruction, from the energy counter.
///
/// The counter steps about every 100 ms, and the power sensors of data-centre GPUs measure during a
/// quarter of the time at best: neither gives the energy of one instruction of 50 ms. But the times
/// of all instructions are known, and between two steps of the counter
///
///   energy = sum over classes (power of the class x its time between the steps) + noise
///
/// A class is a kind and chunk at one clock; waiting is a class, too. The steps fall at different
/// places of each iteration, so that some iterations separate the classes by least squares. The
/// prior is that computations at one clock draw about the same power, and that waiting draws the
/// same power as under earlier assignments. The error bar follows from the residuals. The noise is
/// the error of the times of steps, some milliseconds.
///
/// Not thread-safe. `add` is O(edges x instructions between + classes^2), `refine` O(classes^3).
class PowerSplit {
 public:
  /// Adds an iteration and the counter's edges from `kBefore` before it to its end, with their best
  /// present estimates. Each interval counts once. The first iteration by other assignments starts
  /// over and is left out, because its clocks were still changing.
  void add(const IterationRecord& record, std::span<const CounterEdge> edges);

  /// Replaces worse energies of the report: those that are NaN, that have a larger error, or whose
  /// instructions are too short for the power sensors.
  void refine(const IterationRecord& record, IterationReport& report) const;

  static constexpr std::size_t kMostClasses = 24;  ///< with more, nothing is estimated
  static constexpr Seconds kBefore{1};  ///< time before an iteration from which intervals count

 private:
  using Class = std::tuple<int, int, int>;  ///< kind (-1: waiting), chunk, MHz
  struct Solution {
    std::vector<double> power;
    std::vector<double> covariance;  ///< square matrix
  };

  std::size_t index(const Class& of);
  void add_interval(const CounterEdge& from, const CounterEdge& to,
                    std::span<const TimedInstruction> instructions);
  std::optional<Solution> solve() const;
  /// Adds the prior.
  void expect(std::vector<double>& matrix, std::vector<double>& right) const;

  std::optional<std::uint64_t> version_;
  std::optional<CounterEdge> used_;     ///< the end of the last interval that was added
  std::optional<Instant> known_since_;  ///< `instructions_` has all instructions since then
  std::vector<TimedInstruction> instructions_;
  std::optional<double> waiting_;  ///< watts, under the assignments before
  std::map<Class, std::size_t> classes_;
  bool too_many_ = false;
  // Sums over intervals, weighted by inverse variance.
  std::vector<double> times_times_;   ///< kMostClasses squared
  std::vector<double> times_energy_;  ///< kMostClasses
  double energy_energy_ = 0;
  double intervals_ = 0;
  double energy_ = 0, time_ = 0;  ///< not weighted
};

class Reporter {
 public:
  struct Parts {
    std::unique_ptr<net::HttpLink> link;
    ClockLink* clocks = nullptr;        ///< null if no clocks are set
    EnergyMonitor* monitor = nullptr;   ///< of one GPU; null if energy is not measured
    ClockReadings* readings = nullptr;  ///< of that GPU; null without `monitor`
    Megahertz highest{};                ///< highest clock of that GPU; 0 if not known
    PublishedAssignments& assignments;
    PauseBoard& pauses;
    Clock& clock;
    std::function<void(const std::string&)> log;
  };

  Reporter(Parts parts, ServerSessionOptions options, std::size_t instructions);
  ~Reporter() { stop(); }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // From any thread.
  void ended(IterationRecord record);
  /// Logs a line on the reporter's thread. The text must stay valid. If several lines are pending,
  /// only the newest is logged.
  void say(const char* log) noexcept { to_say_ = log; }
  /// Sets the reason why training does not run by the assignment in force; null if it does. The
  /// text must stay valid.
  void refuse(const char* why) noexcept { refusal_ = why; }
  /// Sets how long reports of iterations wait for device times. A report without them by then is
  /// dropped. 0: reports do not wait.
  void await_device_times(Seconds most);
  /// Adds the device times of an iteration that is about to end, or has ended.
  void device_times(std::int64_t iteration, std::vector<TimeSpan> times);
  bool registered() const { return registered_; }
  std::uint64_t reports_sent() const { return reports_sent_; }
  std::uint64_t reports_dropped() const { return reports_dropped_; }

  /// Sends the remaining reports and the end of training, for at most two seconds, and stops.
  void stop();

 private:
  struct DeviceTimes {
    std::int64_t iteration = 0;
    std::vector<TimeSpan> times;
  };
  ServerSession::Listener listener();
  void run();
  void say_what_is_to_say();
  void report_ended(Instant now);
  Instant due(const IterationRecord& record) const HARPE_REQUIRES(mutex_);
  std::optional<IterationRecord> take_ended(Instant now);
  void report(const IterationRecord& record);
  void tell_of_streams();
  IterationReport report_of(const IterationRecord& record);
  bool throttled(const IterationRecord& record);
  void publish(bool governed);
  Instant next(Instant now);
  bool held_to(const IterationRecord& record);
  std::string refusal_in(std::int64_t iteration) const;
  void take_assignment(const StageAssignment& assignment);
  bool is_done(Instant now);

  Parts parts_;
  RankCoordinates place_;
  AssignmentBook book_;
  Instant forgotten_{};  ///< earlier iterations may be by assignments of another life of the job
  bool governed_ = false;
  PowerSplit split_;
  ServerSession session_;
  bool told_refused_ = false;
  std::string told_refusal_;                    ///< last logged refusal of an assignment
  bool by_calls_ = false, told_calls_ = false;  ///< true if an iteration had the times of its calls

  Mutex mutex_;
  std::deque<IterationRecord> ended_ HARPE_GUARDED_BY(mutex_);
  std::deque<DeviceTimes> device_times_ HARPE_GUARDED_BY(mutex_);  ///< by iteration
  Seconds await_times_ HARPE_GUARDED_BY(mutex_){0};
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;

  Instant give_up_{};
  std::atomic<const char*> to_say_ = nullptr, refusal_ = nullptr;
  std::atomic<bool> registered_ = false;
  std::atomic<std::uint64_t> reports_sent_ = 0, reports_dropped_ = 0;
  std::thread thread_;
};

}  // namespace harpe::training
