#pragma once
/// \file
/// A process on a machine in simulated time: its clock, its loop, its threads. It can be killed,
/// stopped and continued, and its machine's clock may run fast or slow.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/loop.h"
#include "harpe/base/scheduler_testing.h"
#include "harpe/training/server/workers.h"
#include "simulation/random.h"

namespace harpe::simulation {

/// The time of a machine, for all of its processes.
struct MachineTime {
  Seconds since_boot{1000};  ///< at the start of the simulation
  double rate = 1;           ///< seconds on its clock per simulated second
  Seconds wall{1.8e9};       ///< since 1970, at the start of the simulation; may be set
};

class Process {
 public:
  Process(Scheduler& scheduler, std::string name, const MachineTime& machine, std::uint64_t seed);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  Random& random() { return random_; }

  bool dead() const { return dead_; }
  bool stopped() const { return stopped_; }
  /// Kills the process: from now on it has no effect. Release its objects on a thread of the
  /// scheduler, where waiting functions return after a moment.
  void kill();
  /// Ends its loop: work posted to it is no longer run.
  void end_loop() { is_looping_ = false; }
  /// Like SIGSTOP and SIGCONT: its clock continues, nothing else does.
  void stop() { stopped_ = true; }
  void go_on();

  Clock& clock() { return clock_; }
  const Clock& clock() const { return clock_; }
  Loop& loop() { return loop_; }
  training::MakeWorkers make_workers();
  /// Runs `body` as a thread of this process.
  void start_thread(std::function<void()> body);

  /// Runs work at a moment of the simulation, unlike `loop().post`; in order of time, if the
  /// process lives then, and once it is not stopped.
  void deliver_at(Instant when, std::function<void()> work);

 private:
  class ProcessClock final : public Clock {
   public:
    explicit ProcessClock(Process& process) : process_(process) {}
    Instant now() const override { return process_.local(process_.scheduler_.now()); }
    void sleep_until(Instant until) override { process_.sleep_until(until); }

   private:
    Process& process_;
  };
  class ProcessLoop final : public Loop {
   public:
    explicit ProcessLoop(Process& process) : process_(process) {}
    void post(std::function<void()> work) override;
    void after(Seconds delay, std::function<void()> work) override;

   private:
    Process& process_;
    Instant last_{};  ///< time of the last posted work
  };
  class ProcessWorkers;

  Instant local(Instant simulated) const;
  Instant simulated(Instant local) const;
  void sleep_until(Instant until);
  void happen(std::function<void()> work);

  Scheduler& scheduler_;
  const std::string name_;
  const MachineTime& machine_;
  Random random_;
  ProcessClock clock_{*this};
  ProcessLoop loop_{*this};
  bool dead_ = false, stopped_ = false, is_looping_ = true;
  std::deque<std::function<void()>> held_;  ///< work that arrived while it was stopped
  std::vector<Scheduler::Thread*> sleeping_;
};

}  // namespace harpe::simulation
