#pragma once
/// \file
/// The model of when a clock comes into force that Harpe's client and its plans share.
///
/// A change to clock c takes between l(c) and L(c) (`LatencyByClock`). A client that asks for c
/// when its instruction begins, or the one before ends, leaves a plan the whole L(c). Harpe's
/// client asks a(c) = 0.7 l(c) before the running instruction is expected to end
/// (client/pacer.h), so that c is in force at most
///
///     r(c) = L(c) - min(a(c), s)
///
/// after that end. Here s is the shortest computation of the plan, less the time until the client
/// sees that an instruction has begun (`kSeenWithin`): a clock is not asked for before the
/// instruction ahead of its own has begun. A plan for clocks that are late by up to r(c) then holds
/// for every delay from l(c) to L(c):
///
/// * Not too early. c is never asked for so early that it could come before the end of the longest
///   of the running instruction's last few durations. That leaves 0.3 l(c) for durations to vary,
///   as they do where the instruction's own clock comes at another moment each time, and for
///   changes that are quicker than any that was measured.
/// * Not too late. As long as the last few durations differ by less than 0.3 l(c), the instruction
///   is expected to take the shortest of them. The plan counts the longest that late clocks make
///   it, T. So c is asked for by T - a(c) after the begin, or at the end if that comes first, and
///   is in force by T + r(c): r(c) after the begin of the next instruction that the plan counts,
///   though that one may have begun earlier. By induction each instruction ends when the plan says,
///   or earlier. (One that begins earlier than the plan says may take longer than T, and end in
///   time. The next clock is late by that much only if all of its last few runs did so, and this
///   one does not.)
/// * Energy. If an instruction ends earlier by d because its own clock came late and the clock
///   before was faster, the next clock is late by up to r(c) + d after the actual begin. The plan
///   does not count these d seconds at the clock before. They cost energy only if clocks fall twice
///   in a row, and less than the plan counts too much: it takes every change to be as late as can
///   be.
///
/// Not covered: durations that vary by more than 0.3 l(c), by as much as they do; and the first
/// time that an instruction runs at a clock, whose duration is not known: the next clock is then
/// asked for at its end. Like plans for any client, this takes a change to end within its latency
/// also if another one is asked for meanwhile, which happens after computations shorter than L(c).
/// Waking the client's timer and the agent takes some tens of microseconds.

#include <span>
#include <utility>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// The program that asks a GPU for the clocks of a plan.
enum class ClockClient : unsigned char {
  kAny,    ///< when their instructions begin, or those before them end
  kHarpe,  ///< ahead of that, as `AskingAhead` says
};

/// How long before the expected end of an instruction the client asks for the next clock.
class AskingAhead {
 public:
  /// The client sees within that time that an instruction has begun: it looks so often.
  static constexpr Seconds kSeenWithin{0.001};

  /// By a share of the least latency of each clock.
  explicit AskingAhead(LatencyByClock latency) : AskingAhead(std::move(latency), kShare) {}
  /// By the same time for every clock. 0: clocks are asked for at the end.
  static AskingAhead by(Seconds time) { return AskingAhead(LatencyByClock(time), 1); }

  Seconds time(Megahertz clock) const { return share_ * least(clock); }
  /// The least time from asking for the clock until it is in force.
  Seconds least(Megahertz clock) const { return latency_.least_to(clock); }
  /// True if some clock is asked for before the end.
  bool is_ahead() const { return latency_.longest() > Seconds{0}; }

 private:
  static constexpr double kShare = 0.7;

  AskingAhead(LatencyByClock latency, double share) : latency_(std::move(latency)), share_(share) {}

  LatencyByClock latency_;
  double share_;
};

/// Returns r(c), see above. One time for all clocks stays one.
/// \param clocks    those of the plan: of a table, the result has an entry for each
/// \param shortest  the least time of a computation of the plan
LatencyByClock remaining_latency(const LatencyByClock& latency, std::span<const Megahertz> clocks,
                                 Seconds shortest);

}  // namespace harpe::plan
