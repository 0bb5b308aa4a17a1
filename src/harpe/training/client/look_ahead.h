#pragma once
/// \file
/// When to ask for the clock of the next instruction while one is still running.
///
/// A clock comes into force some time after it was asked for. Asking when an instruction ends costs
/// nothing, but the next one may begin at once, at the old clock. So each clock is asked for
/// earlier, by 0.7 of the least time that a change to it takes: it is then in force soon after the
/// end, and plans count on that (instruction/asking_ahead.h). How long an instruction takes is what
/// it took before: in the same place of the list at the same clock, else any of its kind and chunk
/// at that clock; of the last few times the shortest, unless the clock could come before the end of
/// the longest of them: so that one that is shorter by chance does not make the next one cut into.
/// Where nothing is known, nothing is asked for.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/instruction/instruction.h"

namespace harpe::training {

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
    Megahertz clock;         ///< that it was asked to run at
    Megahertz next;          ///< that the following instruction should run at; equal: nothing to do
    std::uint32_t step = 0;  ///< on whose behalf to ask
  };
  void begin(const Running& running, Instant at);
  void end(Instant at);

  struct Ask {
    Instant at;
    std::uint32_t step = 0;
    Megahertz clock;
  };
  /// What to ask for and when, until it is taken or the instruction ends.
  const std::optional<Ask>& ask() const { return ask_; }
  void taken() { ask_.reset(); }

 private:
  /// The last few durations of one thing.
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

}  // namespace harpe::training
