#pragma once
/// \file
/// What the pictures of a plan have in common: its transfers, where its energy goes, its labels.

#include <array>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/plan.h"

namespace harpe::report {

/// A transfer between two instructions, given by stage and position in the list of the stage.
struct Link {
  int from_stage = 0;
  int from_position = 0;
  int to_stage = 0;
  int to_position = 0;
  Seconds time;
};

/// The transfers of a plan, in the order of their senders. O(instructions).
std::vector<Link> transfer_links(const Plan& plan);

struct Interval {
  Seconds start;
  Seconds end;
};

/// When a transfer takes place: once the sender's instruction has ended and, in rendezvous mode,
/// the instruction before the receiver's too.
Interval transfer_interval(const Plan& plan, const Link& link);

/// Sums over a plan, for the whole pipeline (all GPUs).
struct PlanFigures {
  Joules computing;          ///< joules of all instructions
  Joules blocking;           ///< joules of waiting for the rest of the iteration
  double waiting_share = 0;  ///< of all GPU time
};
PlanFigures plan_figures(const Plan& plan);

/// Watts of one GPU during the instruction; the blocking power for one that takes no time.
Watts power(const Plan& plan, int stage, const PlannedInstruction& instruction);

/// Watts of one waiting GPU of the stage.
Watts blocking_power(const Plan& plan, int stage);

/// "F3", "B3", "F7B3" for an overlapped block, "load": what stands in a block.
std::string block_label(const PlannedInstruction& instruction);

/// Watts of one GPU of `stage`, averaged over each of `columns` equal parts of `span` seconds; a
/// part that lies wholly after the iteration's end is negative. O(instructions + columns).
std::vector<double> average_power(const Plan& plan, int stage, Seconds span, int columns);

/// Colours of powers: close to the background for a GPU that waits, farthest from it at full clock.
/// Lightness falls evenly (OKLab) along the scale while the hue runs from cream over amber to dark
/// red, so that the order is visible to colour-blind readers and in a grey print.
class PowerScale {
 public:
  static constexpr int kColours = 64;

  PowerScale(Watts low, Watts high);
  /// Spans the blocking power and every instruction's power of all `plans`, but not what late
  /// clocks cost, which may be much in no time.
  explicit PowerScale(const std::vector<const Plan*>& plans);

  Watts low() const { return low_; }
  Watts high() const { return high_; }
  /// Index of the colour for a power, 0 to kColours - 1.
  int index(Watts power) const;
  /// "#rrggbb".
  static const std::string& colour(int index);
  /// The colour of the border of a block: darker than its own.
  static const std::string& border(int index);
  /// The same on a dark ground, where what draws most is brightest.
  static const std::string& dark_colour(int index);
  static const std::string& dark_border(int index);
  /// Whether dark text cannot be read on the colour, of those for a light ground.
  static bool is_deep(int index) { return index * 9 > kColours * 4; }

 private:
  Watts low_, high_;
};

}  // namespace harpe::report
