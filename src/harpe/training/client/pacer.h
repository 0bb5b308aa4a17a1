#pragma once
/// \file
/// The thread beside training: takes the calls of training out of the ring, asks for clocks ahead
/// of the instructions that need them, and puts iterations together.

#include <atomic>
#include <functional>
#include <thread>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/training/client/clock_link.h"
#include "harpe/training/client/iteration_log.h"
#include "harpe/training/client/look_ahead.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/client/wanted_clock.h"

namespace harpe::training {

/// Training does not wake it, which would be a system call: it looks by itself, each millisecond
/// while training runs. An instruction's begin is noted with its time, so what is asked ahead is
/// asked in time for every instruction that is longer than a switch and a millisecond.
class Pacer {
 public:
  struct Parts {
    RankEventQueue& ring;
    WantedClock& wanted;
    ClockLink* clocks = nullptr;  ///< null: none are set
    Clock& clock;
  };
  struct Options {
    std::size_t instructions = 0;  ///< length of the stage's list
    plan::AskingAhead asking = plan::AskingAhead::by(Seconds{0});
  };
  static constexpr std::size_t kTeller = 1;  ///< of the clock link

  /// \param ended  hears each iteration that has ended, on this thread
  Pacer(Parts parts, const Options& options, std::function<void(IterationRecord)> ended);
  ~Pacer() { stop(); }
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  /// Takes what is left in the ring, ends the last iteration, and stops.
  void stop();

  std::uint64_t asked_ahead() const { return asked_ahead_.load(std::memory_order_relaxed); }

 private:
  void run();
  bool drain();
  void see(const RankEvent& event);
  void ask_if_due();

  Parts parts_;
  Options options_;
  std::function<void(IterationRecord)> ended_;
  LookAhead look_ahead_;
  IterationLog log_;
  std::atomic<std::uint64_t> asked_ahead_ = 0;

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace harpe::training
