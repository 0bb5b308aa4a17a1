#pragma once
/// \file
/// Transfer times of activations and gradients between the stages of a schedule.
///
///   const std::vector<harpe::Seconds> times(stages - 1, 0.003_s);
///   const auto pipeline =
///       harpe::Pipeline::build(schedule, {.forward = times, .backward = times});  // pipeline.h

#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

struct Transfers {
  enum class Mode : unsigned char {
    kOverlapped,  ///< the receiver starts later by the transfer time; no stage is occupied
    /// Blocking send and receive. The transfer begins when the sender's instruction and the
    /// receiver's preceding instruction have ended, and ends before the sender's next instruction
    /// and the receiver's instruction begin. The sender's instruction is the `send` of the data if
    /// the schedule has one, else the computation that produces the data. The receiver's
    /// instruction is the `recv`, else the computation that needs the data. If the receiver's
    /// preceding instruction is a `send`, it ends when its own transfer has ended: two stages that
    /// both send first deadlock. Computations without `send` and `recv` send and receive at the
    /// same time, as the 1F1B of Megatron-LM does, and do not deadlock.
    kRendezvous,
  };
  Mode mode = Mode::kOverlapped;
  /// Seconds from model part k to k + 1 (activations) and from k + 1 to k (gradients); empty, or
  /// parts - 1 entries. Entries between two parts on the same stage are ignored.
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;

  bool none() const { return forward.empty() && backward.empty(); }
  friend bool operator==(const Transfers&, const Transfers&) = default;
};

/// Checks the number and range of the times for a model of `parts` parts.
Status validate(const Transfers& transfers, int parts);

}  // namespace harpe
