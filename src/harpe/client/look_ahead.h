#pragma once
/// \file
/// When to ask for the clock of the next instruction while one is still running.
///
/// A clock comes into force some time after it was asked for. Asking when an instruction ends costs
/// nothing, but the next one may begin at once, at the old clock. So it is asked for earlier by the
/// shortest time that a switch takes: then it is in force as soon as can be, and never before the
/// running instruction ends. How long an instruction takes is what it took before: in the same
/// place of the list at the same clock, else any of its kind and chunk at that clock; of the last
/// few times the longest, so that one that is shorter by chance does not make the next one cut
/// into. Where nothing is known, nothing is asked for.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/instruction/instruction.h"

namespace harpe {

/// Not thread-safe. O(log (kinds x chunks x clocks)).
class LookAhead {
 public:
  /// \param instructions     length of the stage's list
  /// \param shortest_switch  least time from asking for a clock to its coming into force
  LookAhead(std::size_t instructions, Seconds shortest_switch)
      : places_(instructions), shortest_switch_(shortest_switch) {}

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
    std::optional<double> longest() const;
  };
  struct Place {
    Megahertz clock{-1};
    Durations durations;
  };

  std::vector<Place> places_;
  std::map<std::tuple<InstructionKind, int, int>, Durations> kinds_;
  Seconds shortest_switch_;
  std::optional<Running> running_;
  Instant began_;
  std::optional<Ask> ask_;
};

}  // namespace harpe
