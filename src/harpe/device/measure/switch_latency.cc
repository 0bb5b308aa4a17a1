#include "harpe/device/measure/switch_latency.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/statistics.h"
#include "harpe/device/hw/device.h"

namespace harpe {
namespace {

/// A guard that restores the clock lock of a GPU when it is destroyed: the earlier lock, or none.
class ClockRestorer {
 public:
  explicit ClockRestorer(Gpu& gpu) : gpu_(&gpu) {
    const auto before = gpu.locked_clocks(ClockDomain::kGraphics);
    knows_before_ = before.ok();
    if (before.ok()) before_ = *before;
  }

  ~ClockRestorer() { (void)restore(); }
  ClockRestorer(const ClockRestorer&) = delete;
  ClockRestorer& operator=(const ClockRestorer&) = delete;

  /// Restores the lock now. The destructor tries again if this fails, and does nothing otherwise.
  Status restore() {
    if (restored_) return ok_status();
    HARPE_TRY(before_ ? gpu_->set_locked_clocks(ClockDomain::kGraphics, *before_)
                      : gpu_->reset_locked_clocks(ClockDomain::kGraphics));
    restored_ = true;
    return ok_status();
  }

  /// True if the driver reported the lock; otherwise restoring removes the lock.
  bool knows_before() const { return knows_before_; }

 private:
  Gpu* gpu_;
  std::optional<ClockRange> before_;
  bool knows_before_ = false;
  bool restored_ = false;
};

// Patience with clocks that are not timed: the clock before a switch, and a late switch, which
// would otherwise disturb the next measurement.
constexpr double kPatience = 10;  // timeouts
constexpr Seconds kLeastPatience{5};

std::optional<LatencyDistribution> distribution(const std::vector<Seconds>& times) {
  if (times.empty()) return std::nullopt;
  std::vector<double> values;
  values.reserve(times.size());
  for (const Seconds time : times) values.push_back(time.value);
  return LatencyDistribution{.median = {quantile(values, 0.5)},
                             .p95 = {quantile(values, 0.95)},
                             .longest = {quantile(values, 1)}};
}

/// Arrival of a clock that stays at its target.
struct Arrival {
  bool came = false;
  Instant after, by;  ///< readings between which the clock arrived
};

class Session {
 public:
  Session(Gpu& gpu, const SwitchLatencyOptions& options, Clock& clock)
      : gpu_(gpu), options_(options), clock_(clock), random_(options.seed) {}

  Status run(SwitchLatencyResult& result) {
    const auto& clocks = options_.clocks;
    for (const Megahertz from : clocks) {
      for (const Megahertz to : clocks) {
        if (from == to) continue;
        result.switches.push_back({.from = from, .to = to, .calls = {}, .transitions = {}});
      }
    }
    std::vector<std::size_t> order;
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      for (std::size_t i = 0; i < result.switches.size(); ++i) order.push_back(i);
    }
    std::ranges::shuffle(order, random_);
    for (std::size_t done = 0; done < order.size(); ++done) {
      if (!cancelled()) {
        HARPE_TRY(once(result.switches[order[done]]));
      }
      if (cancelled_) {
        result.cancelled = true;
        return ok_status();
      }
      if (options_.progress) {
        options_.progress(static_cast<double>(done + 1) / static_cast<double>(order.size()));
      }
    }
    return ok_status();
  }

 private:
  Status lock(Megahertz clock) {
    return gpu_.set_locked_clocks(ClockDomain::kGraphics, {clock, clock});
  }

  /// Returns true once the caller has cancelled the measurement.
  bool cancelled() {
    cancelled_ = cancelled_ || (options_.cancelled && options_.cancelled());
    return cancelled_;
  }

  Seconds patience() const { return std::max(options_.timeout * kPatience, kLeastPatience); }

  /// Reads the clock from `since` until it stays at the target, the deadline passes, or the
  /// measurement is cancelled.
  Result<Arrival> await(Megahertz target, Instant since, Instant deadline) {
    Arrival arrival{.after = since, .by = since};
    bool there = false;
    while (!cancelled()) {
      const Instant before = clock_.now();
      const Megahertz now = HARPE_TRY(gpu_.clock(ClockDomain::kGraphics));
      const Instant read = {before.ns + (clock_.now().ns - before.ns) / 2};
      const bool at_target = std::abs(now.value - target.value) <= options_.tolerance.value;
      if (at_target && !there) arrival.by = read;
      if (!at_target) arrival.after = read;
      there = at_target;
      if (there && read >= arrival.by + options_.hold) {
        arrival.came = true;
        return arrival;
      }
      if (!there && read >= deadline) return arrival;
      if (read >= std::max(deadline, since) + options_.hold * 2) return arrival;
      clock_.sleep_until(clock_.now() + options_.poll);
    }
    return arrival;
  }

  Status once(ClockSwitch& pair) {
    HARPE_TRY(lock(pair.from));
    const Instant asked = clock_.now();
    const Arrival ready = HARPE_TRY(await(pair.from, asked, asked + patience()));
    if (cancelled_) return ok_status();
    if (!ready.came) {  // something limits the GPU, so the switch cannot be timed
      pair.late += 1;
      return ok_status();
    }
    std::uniform_real_distribution<double> moment(0, options_.hold.value);
    clock_.sleep_until(clock_.now() + Seconds{moment(random_)});
    const Instant start = clock_.now();
    HARPE_TRY(lock(pair.to));
    const Instant returned = clock_.now();
    const Arrival arrival = HARPE_TRY(await(pair.to, returned, start + options_.timeout));
    if (cancelled_) return ok_status();
    pair.calls.push_back(returned - start);
    if (!arrival.came) {
      pair.late += 1;
      const Instant now = clock_.now();
      HARPE_TRY(await(pair.to, now, now + patience()));
      return ok_status();
    }
    // A clock that is at its target when the call returns arrived at some instant during the call.
    const bool during_call = arrival.after == returned;
    const Instant after = during_call ? start : arrival.after;
    const Seconds transition = (after - start) + (arrival.by - after) / 2;
    if (transition > options_.timeout) {
      pair.late += 1;
      return ok_status();
    }
    pair.transitions.push_back(transition);
    pair.resolution = std::max(pair.resolution, arrival.by - after);
    return ok_status();
  }

  Gpu& gpu_;
  const SwitchLatencyOptions& options_;
  Clock& clock_;
  std::mt19937_64 random_;
  bool cancelled_ = false;
};

Status check(Gpu& gpu, const SwitchLatencyOptions& options) {
  if (options.clocks.size() < 2) {
    return Error::invalid("at least two clocks are needed to switch between");
  }
  if (options.repeats < 1 || !(options.timeout.value > 0)) {
    return Error::invalid("at least one repetition and a timeout above 0 are needed");
  }
  const auto supported = gpu.supported_clocks(ClockDomain::kGraphics);
  if (!supported.ok()) return ok_status();  // the driver checks the clocks
  Diagnostics diagnostics;
  for (const Megahertz clock : options.clocks) {
    if (supported->empty() || std::ranges::find(*supported, clock) != supported->end()) continue;
    const auto nearest = std::ranges::min_element(
        *supported, {}, [&](Megahertz other) { return std::abs(other.value - clock.value); });
    diagnostics.add(std::to_string(clock.value) +
                    " MHz is not a clock of this GPU; the nearest is " +
                    std::to_string(nearest->value) + " MHz");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace

std::optional<LatencyDistribution> ClockSwitch::call() const {
  return distribution(calls);
}
std::optional<LatencyDistribution> ClockSwitch::transition() const {
  return distribution(transitions);
}

int SwitchLatencyResult::repetitions() const {
  int all = 0;
  for (const ClockSwitch& pair : switches) all += pair.repetitions();
  return all;
}

Result<SwitchLatencyResult> measure_switch_latency(Gpu& gpu, const SwitchLatencyOptions& options,
                                                   Clock& clock) {
  HARPE_TRY(check(gpu, options));
  SwitchLatencyResult result;
  ClockRestorer restorer(gpu);
  result.knew_before = restorer.knows_before();
  Status measured = Session(gpu, options, clock).run(result);
  const Status restored = restorer.restore();
  result.restored = restored.ok();
  if (!measured.ok()) result.failure = std::move(measured).error();
  if (!restored.ok()) {
    const std::string text = "the clocks could not be restored: " + restored.error().text();
    if (!result.failure) result.failure = Error{restored.error().code, {}};
    result.failure->diagnostics.push_back({.message = text});
  }
  if (result.failure && result.repetitions() == 0) return *std::move(result.failure);
  return result;
}

std::vector<Megahertz> spread_clocks(const std::vector<Megahertz>& supported, int count) {
  if (static_cast<int>(supported.size()) <= count) return supported;
  std::vector<Megahertz> result;
  for (int i = 0; i < count; ++i) {
    const double place =
        static_cast<double>(i) / (count - 1) * static_cast<double>(supported.size() - 1);
    result.push_back(supported[static_cast<std::size_t>(std::lround(place))]);
  }
  return result;
}

}  // namespace harpe
