#pragma once
/// \file
/// Shared parts of the pictures of a plan: transfers, energy figures, labels, colours.

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

/// Returns the transfers of a plan, in the order of their senders. O(instructions).
std::vector<Link> transfer_links(const Plan& plan);

struct Interval {
  Seconds start;
  Seconds end;
};

/// Returns the time span of a transfer. It starts when the sender's instruction has ended and, in
/// rendezvous mode, the instruction before the receiver's has ended too.
Interval transfer_interval(const Plan& plan, const Link& link);

/// Sums over a plan, for the whole pipeline (all GPUs).
struct PlanFigures {
  Joules computing;          ///< energy of all instructions
  Joules blocking;           ///< energy of all waiting in the iteration
  double waiting_share = 0;  ///< share of all GPU time spent waiting
};
PlanFigures plan_figures(const Plan& plan);

/// Returns the power of one GPU during the instruction; the blocking power if it takes no time.
Watts power(const Plan& plan, int stage, const PlannedInstruction& instruction);

/// Returns the power of one waiting GPU of the stage.
Watts blocking_power(const Plan& plan, int stage);

/// Returns the label of a block: "F3", "B3", "F7B3" for an overlapped block, "load".
std::string block_label(const PlannedInstruction& instruction);

/// Returns the average watts of one GPU of `stage` in each of `columns` equal parts of `span`;
/// negative for a part after the iteration's end. O(instructions + columns).
std::vector<double> average_power(const Plan& plan, int stage, Seconds span, int columns);

/// Colours for powers: close to the background for a waiting GPU, farthest from it at full clock.
/// Lightness falls evenly (OKLab) along the scale while the hue changes from cream over amber to
/// dark red, so that the order is visible to colour-blind readers and in greyscale.
class PowerScale {
 public:
  static constexpr int kColours = 64;

  PowerScale(Watts low, Watts high);
  /// Spans the blocking powers and the powers of all instructions of all `plans`, but not the cost
  /// of late clocks, which may be much energy in no time.
  explicit PowerScale(const std::vector<const Plan*>& plans);

  Watts low() const { return low_; }
  Watts high() const { return high_; }
  /// Returns the index of the colour for a power, 0 to kColours - 1.
  int index(Watts power) const;
  /// Returns the colour as "#rrggbb".
  static const std::string& colour(int index);
  /// Returns the colour of a block's border: darker than the block.
  static const std::string& border(int index);
  /// Returns the colour on a dark background, where the highest power is the brightest.
  static const std::string& dark_colour(int index);
  static const std::string& dark_border(int index);
  /// Returns true if dark text is unreadable on the colour (light background).
  static bool is_deep(int index) { return index * 9 > kColours * 4; }

 private:
  Watts low_, high_;
};

}  // namespace harpe::report
