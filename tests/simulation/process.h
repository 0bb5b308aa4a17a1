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

/// What a machine believes of the time, whatever runs on it.
struct MachineTime {
  Seconds since_boot{1000};  ///< at the start of the simulation
  double rate = 1;           ///< seconds that it counts in one
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
  /// From here on nothing of it has any effect. What it holds is to be given up on a thread of the
  /// scheduler, where what waits returns after a moment.
  void kill();
  /// Its loop has returned: nothing that was given to it is done any more.
  void end_loop() { is_looping_ = false; }
  /// As SIGSTOP and SIGCONT do: its clock goes on, nothing else does.
  void stop() { stopped_ = true; }
  void go_on();

  Clock& clock() { return clock_; }
  const Clock& clock() const { return clock_; }
  Loop& loop() { return loop_; }
  training::MakeWorkers make_workers();
  /// Runs `body` as a thread of this process.
  void start_thread(std::function<void()> body);

  /// Later than `loop().post`, when this moment of the simulation comes; in the order in which it
  /// comes, if the process lives then, once it is not stopped.
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
    Instant last_{};  ///< when the last that was posted comes
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
  std::deque<std::function<void()>> held_;  ///< what came while it was stopped
  std::vector<Scheduler::Thread*> sleeping_;
};

}  // namespace harpe::simulation
