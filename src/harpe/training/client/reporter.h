#pragma once
/// \file
/// The thread that talks to the server and to the agent: reports up, assignments down, leases
/// renewed.

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

/// Estimates the power of each kind of instruction from the energy counter.
///
/// A counter steps every 100 ms or so, and the power sensors of data-centre GPUs see a quarter of
/// the time at best: neither gives the energy of one instruction of 50 ms. But the times of all
/// instructions are known, and between two steps of the counter
///
///   energy = sum over classes (power of the class x its time between the steps) + noise
///
/// A class is a kind and chunk at one clock; waiting is a class, too. Steps of the counter fall at
/// other places of each iteration, so that some iterations separate the classes by least squares.
/// The prior is that computations at one clock draw about the same power, and that waiting draws
/// what it drew under earlier assignments. The error bar comes from the residuals. The noise is
/// that the times of steps are known to some milliseconds only.
///
/// Not thread-safe. `add` is O(edges x instructions between + classes^2), `refine` O(classes^3).
class PowerSplit {
 public:
  /// Takes an iteration and the counter's edges from `kBefore` before it to its end, estimated as
  /// well as is possible now; an interval counts once. Iterations of other assignments start over,
  /// and the first of them is left out: its clocks were still changing.
  void add(const IterationRecord& record, std::span<const CounterEdge> edges);

  /// Puts what is known of this iteration's instructions in place of worse estimates: those without
  /// a number, with a larger error, or of instructions too short for what sensors see.
  void refine(const IterationRecord& record, IterationReport& report) const;

  static constexpr std::size_t kMostClasses = 24;  ///< more are not told apart
  static constexpr Seconds kBefore{1};             ///< an iteration: its intervals begin then

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
  /// Adds what is expected before anything is measured.
  void expect(std::vector<double>& matrix, std::vector<double>& right) const;

  std::optional<std::uint64_t> version_;
  std::optional<CounterEdge> used_;             ///< the end of the last interval that was added
  std::optional<Instant> known_since_;          ///< all instructions since then are in ...
  std::vector<TimedInstruction> instructions_;  ///< ... these
  std::optional<double> waiting_;               ///< watts, under the assignments before
  std::map<Class, std::size_t> classes_;
  bool too_many_ = false;
  // Sums over intervals, weighted by what is known of each.
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
    ClockLink* clocks = nullptr;        ///< null: none are set
    EnergyMonitor* monitor = nullptr;   ///< of one GPU; null: energy is not measured
    ClockReadings* readings = nullptr;  ///< of that GPU, with `monitor`
    Megahertz highest{};                ///< clock of that GPU; 0: not known
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
  /// Has the reporter's own thread say something, which must last; the newest where several come.
  void say(const char* log) noexcept { to_say_ = log; }
  /// Why training does not run by the assignment that holds, which must last; null: it does.
  void refuse(const char* why) noexcept { refusal_ = why; }
  /// Reports of iterations wait so long for times on the device, and are dropped without.
  void await_device_times(Seconds most);
  /// Times on the device of an iteration that is about to end, or has ended.
  void device_times(std::int64_t iteration, std::vector<TimeSpan> times);
  bool registered() const { return registered_; }
  std::uint64_t reports_sent() const { return reports_sent_; }
  std::uint64_t reports_dropped() const { return reports_dropped_; }

  /// Sends what is left, and that training has ended, for two seconds at most.
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
  Instant
      forgotten_{};  ///< iterations that began before may have run by assignments of another job
  bool governed_ = false;
  PowerSplit split_;
  ServerSession session_;
  bool told_refused_ = false;
  std::string told_refusal_;                    ///< of an assignment that was taken
  bool by_calls_ = false, told_calls_ = false;  ///< training's calls alone time iterations

  Mutex mutex_;  ///< of what follows
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
