#pragma once
/// \file
/// Model of when a requested clock comes into force, shared by Harpe's client and its plans.
///
/// A change to clock c takes between l(c) and L(c) (`LatencyByClock`). If a client requests c when
/// its instruction begins, or when the one before ends, c may be late by the whole L(c). Harpe's
/// client requests c at a(c) = 0.7 l(c) before the expected end of the running instruction
/// (client/pacer.h), so that c is in force at most
///
///     r(c) = L(c) - min(a(c), s)
///
/// after that end. Here s is the shortest computation of the plan, less the time until the client
/// detects that an instruction has begun (`kSeenWithin`): a clock is not requested before the
/// preceding instruction has begun. A plan for clocks that are late by up to r(c) then holds for
/// every delay from l(c) to L(c):
///
/// * Not too early. c is never requested so early that it could come into force before the end of
///   the longest of the running instruction's last few durations. This leaves 0.3 l(c) for
///   durations to vary, as they do if the instruction's own clock comes into force at a different
///   moment each time, and for changes that are quicker than any measured one.
/// * Not too late. As long as the last few durations differ by less than 0.3 l(c), the expected
///   duration is the shortest of them. The plan counts the longest duration with late clocks, T. So
///   c is requested by T - a(c) after the begin, or at the end if that is earlier, and is in force
///   by T + r(c): r(c) after the planned begin of the next instruction, which may in fact have
///   begun earlier. By induction each instruction ends at its planned end or earlier. (An
///   instruction that begins earlier than planned may take longer than T and still end in time. The
///   next clock is late by this difference only if all of the last few runs took longer and the
///   current one does not.)
/// * Energy. If an instruction ends earlier by d because its own clock came late and the previous
///   clock was faster, the next clock is late by up to r(c) + d after the actual begin. The plan
///   does not count these d seconds at the previous clock. They cost energy only if clocks fall
///   twice in a row, and less than the plan overestimates by assuming that every change is as late
///   as possible.
///
/// Not covered: durations that vary by more than 0.3 l(c), by the excess; and the first run of an
/// instruction at a clock, whose duration is not known: the next clock is then requested at its
/// end. Like plans for any client, this model assumes that a change takes no longer than its
/// latency even if another one is requested in the meantime, which happens after computations
/// shorter than L(c). Waking the client's timer and the agent takes some tens of microseconds.

#include <span>
#include <utility>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// The program that requests the clocks of a plan from a GPU.
enum class ClockClient : unsigned char {
  kAny,    ///< requests a clock when its instruction begins, or the one before ends
  kHarpe,  ///< requests clocks ahead, see `AskingAhead`
};

/// The time by which the client requests a clock before the expected end of an instruction.
class AskingAhead {
 public:
  /// Longest time until the client detects that an instruction has begun: its polling interval.
  static constexpr Seconds kSeenWithin{0.001};

  /// Requests each clock ahead by a fixed share of its least latency.
  explicit AskingAhead(LatencyByClock latency) : AskingAhead(std::move(latency), kShare) {}
  /// Requests every clock ahead by the same time. 0: clocks are requested at the end.
  static AskingAhead by(Seconds time) { return AskingAhead(LatencyByClock(time), 1); }

  Seconds time(Megahertz clock) const { return share_ * least(clock); }
  /// Returns the least time from a request for the clock until it is in force.
  Seconds least(Megahertz clock) const { return latency_.least_to(clock); }
  /// Returns true if some clock is requested before the end.
  bool is_ahead() const { return latency_.longest() > Seconds{0}; }

 private:
  static constexpr double kShare = 0.7;

  AskingAhead(LatencyByClock latency, double share) : latency_(std::move(latency)), share_(share) {}

  LatencyByClock latency_;
  double share_;
};

/// Returns r(c), see above. If `latency` is one time for all clocks, the result is one time too.
/// \param clocks    the clocks of the plan: for a table, the result has one entry for each
/// \param shortest  the shortest computation of the plan
LatencyByClock remaining_latency(const LatencyByClock& latency, std::span<const Megahertz> clocks,
                                 Seconds shortest);

}  // namespace harpe::plan
