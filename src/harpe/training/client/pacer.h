#pragma once
/// \file
/// The thread that reads the calls of training from the ring, requests clocks ahead of the
/// instructions that need them, and assembles iterations.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/training/client/clock_link.h"
#include "harpe/training/client/iteration_log.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/client/wanted_clock.h"

namespace harpe::training {

/// The choice of the time at which to request the next instruction's clock while one is running.
///
/// A clock comes into force some time after its request. If it is requested when an instruction
/// ends, the next one may begin at once, at the old clock. So each clock is requested earlier, by
/// 0.7 of the least time that a change to it takes. It is then in force soon after the end, which
/// plans assume (instruction/asking_ahead.h).
///
/// The expected time of an instruction is one of its last few times at the same place of the list
/// and the same clock, or else of its kind and chunk at that clock. It is the shortest of them,
/// unless the new clock could then come into force before the end of the longest, which would slow
/// the running instruction. Without earlier times, no clock is requested ahead.
///
/// Not thread-safe. O(log (kinds x chunks x clocks)).
class LookAhead {
 public:
  /// \param instructions  length of the stage's list
  LookAhead(std::size_t instructions, plan::AskingAhead asking)
      : places_(instructions), asking_(std::move(asking)) {}

  struct Running {
    int position = 0;  ///< in the stage's list
    InstructionKind kind = InstructionKind::kForward;
    int chunk = 0;
    Megahertz clock;         ///< requested for it
    Megahertz next;          ///< of the following instruction; if equal, nothing is requested
    std::uint32_t step = 0;  ///< step of training for which to request, see `WantedClock`
  };
  void begin(const Running& running, Instant at);
  void end(Instant at);

  struct Ask {
    Instant at;
    std::uint32_t step = 0;
    Megahertz clock;
  };
  /// Returns the next request and its time; nullopt if there is none, or after `taken` or `end`.
  const std::optional<Ask>& ask() const { return ask_; }
  void taken() { ask_.reset(); }

 private:
  /// The last few durations of an instruction.
  struct Durations {
    static constexpr int kKept = 4;
    std::array<float, kKept> seconds{};
    int count = 0;
    void add(double value);
    bool is_known() const { return count > 0; }
    Seconds shortest() const;
    Seconds longest() const;
  };
  struct Place {
    Megahertz clock{-1};
    Durations durations;
  };

  const Durations* durations_of(const Running& running) const;

  std::vector<Place> places_;
  std::map<std::tuple<InstructionKind, int, int>, Durations> kinds_;
  plan::AskingAhead asking_;
  std::optional<Running> running_;
  Instant began_;
  std::optional<Ask> ask_;
};

/// The thread of the pacer. Training does not wake it, which would be a system call; it polls the
/// ring every millisecond while training runs. Each event has its time, so a request is in time for
/// every instruction that is longer than a switch plus a millisecond.
class Pacer {
 public:
  struct Parts {
    RankEventQueue& ring;
    WantedClock& wanted;
    ClockLink* clocks = nullptr;  ///< null if no clocks are set
    Clock& clock;
  };
  struct Options {
    std::size_t instructions = 0;  ///< length of the stage's list
    plan::AskingAhead asking = plan::AskingAhead::by(Seconds{0});
  };
  static constexpr std::size_t kTeller = 1;  ///< of the clock link

  /// \param ended  called on this thread with each iteration that has ended
  Pacer(Parts parts, const Options& options, std::function<void(IterationRecord)> ended);
  ~Pacer() { stop(); }
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  /// Handles the events left in the ring, ends the last iteration, and stops.
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
