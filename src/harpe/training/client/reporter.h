#pragma once
/// \file
/// The thread that talks to the server and to the agent: reports up, assignments down, leases
/// renewed.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/clock_link.h"
#include "harpe/training/client/clock_readings.h"
#include "harpe/training/client/iteration_log.h"
#include "harpe/training/client/pause_board.h"
#include "harpe/training/client/power_split.h"
#include "harpe/training/client/server_session.h"

namespace harpe::training {

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
