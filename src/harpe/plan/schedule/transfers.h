#pragma once
/// \file
/// How long activations and gradients travel between the stages of a schedule.
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
    kOverlapped,  ///< the receiver starts that much later; no stage is occupied
    /// Blocking send and receive: the transfer begins when the sender's instruction and the
    /// receiver's preceding instruction have ended, and ends before the sender's next and the
    /// receiver's instruction begin. The sender's instruction is the `send` of the data where the
    /// schedule has one, else the computation that gives it; the receiver's is the `recv`, else the
    /// computation that needs it. If the receiver's preceding instruction is such a `send`, it has
    /// ended once its own transfer has: two stages that both send first wait for each other for
    /// ever. Computations without such cells send and receive at once, as the 1F1B of Megatron-LM
    /// does, and do not wait so.
    kRendezvous,
  };
  Mode mode = Mode::kOverlapped;
  /// Seconds from model part k to k + 1 (activations) and from k + 1 to k (gradients); empty or
  /// parts - 1 entries. Entries between parts on one stage are ignored.
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;

  bool none() const { return forward.empty() && backward.empty(); }
  friend bool operator==(const Transfers&, const Transfers&) = default;
};

/// Checks the number and range of the times for a model of `parts` parts.
Status validate(const Transfers& transfers, int parts);

}  // namespace harpe
