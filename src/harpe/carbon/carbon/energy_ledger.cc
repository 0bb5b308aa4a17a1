#include "harpe/carbon/carbon/energy_ledger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "harpe/base/check.h"

namespace harpe::carbon {
namespace {

constexpr double kEnd = 7'258'118'400;  // 2200-01-01
/// Sums of parts may differ from the whole by rounding.
constexpr double kRounding = 1e-9;

bool is_part(double part, double whole) {
  return part <= whole * (1 + kRounding) + kRounding;
}

}  // namespace

EnergyUse& EnergyUse::operator+=(const EnergyUse& other) {
  energy += other.energy;
  host += other.host;
  variance += other.variance;
  sensor_error += other.sensor_error;
  without_error += other.without_error;
  device_time += other.device_time;
  measured += other.measured;
  iterations += other.iterations;
  paused += other.paused;
  return *this;
}

EnergyUse operator*(const EnergyUse& use, double share) {
  return {.energy = use.energy * share,
          .host = use.host * share,
          .variance = use.variance * share,
          .sensor_error = use.sensor_error * share,
          .without_error = use.without_error * share,
          .device_time = use.device_time * share,
          .measured = use.measured * share,
          .iterations = use.iterations * share,
          .paused = use.paused * share};
}

Joules EnergyUse::half_width() const {
  return {std::sqrt(variance)};
}

Seconds EnergyUse::unmeasured() const {
  return std::max(device_time - measured, Seconds{0});
}

bool EnergyUse::sound() const {
  const std::array members = {energy.value,        host.value,        variance,
                              sensor_error.value,  device_time.value, measured.value,
                              without_error.value, iterations,        paused.value};
  return std::ranges::all_of(members,
                             [](double member) { return std::isfinite(member) && member >= 0; }) &&
         is_part(host.value, energy.value) && is_part(without_error.value, energy.value);
}

EnergyLedger::EnergyLedger(WholeSeconds step) : step_(step) {
  HARPE_CHECK(is_step(step), "the step of a ledger divides a day");
}

bool EnergyLedger::is_step(WholeSeconds step) {
  return step.count() >= 1 && step <= whole_days(1) && whole_days(1) % step == WholeSeconds(0);
}

UtcTime EnergyLedger::start_of(double time) const {
  const auto second = static_cast<std::int64_t>(std::floor(time));
  return {second - second % step_.count()};
}

Status EnergyLedger::add(double from, double to, const EnergyUse& use) {
  if (!use.sound()) return Error::invalid("an energy is negative, or not a number");
  if (!(from >= 0) || !(to >= from) || !(to < kEnd)) {
    return Error::invalid("a time of use ends before it begins, or is not within 1970 to 2199");
  }
  if (to - from > static_cast<double>(kLongest.count())) {
    return Error::invalid("one measurement is longer than 400 days");
  }
  const UtcTime first = start_of(from);
  // The last interval with a part of the use: a use that ends on the grid has no part of the next.
  const UtcTime last = std::max(first, start_of(std::nextafter(to, from)));
  const auto more = static_cast<std::size_t>((last - first) / step_) + 1;
  if (uses_.size() + more > kMost) {
    return Error::invalid("the ledger would have more than 1 000 000 intervals");
  }
  if (first == last) {
    uses_[first] += use;
    return ok_status();
  }
  for (UtcTime start = first; start <= last; start += step_) {
    const double begin = std::max(from, static_cast<double>(start.since_1970));
    const double end = std::min(to, static_cast<double>((start + step_).since_1970));
    uses_[start] += use * ((end - begin) / (to - from));
  }
  return ok_status();
}

Status EnergyLedger::merge(const EnergyLedger& other) {
  if (step_ != other.step_) return Error::invalid("two ledgers have different intervals");
  if (uses_.size() + other.uses_.size() > kMost) {
    return Error::invalid("the ledgers have more than 1 000 000 intervals together");
  }
  for (const auto& [start, use] : other.uses_) uses_[start] += use;
  return ok_status();
}

EnergyUse EnergyLedger::total() const {
  EnergyUse sum;
  for (const auto& [start, use] : uses_) sum += use;
  return sum;
}

UtcTime EnergyLedger::begin() const {
  return empty() ? UtcTime{} : uses_.begin()->first;
}

UtcTime EnergyLedger::end() const {
  return empty() ? UtcTime{} : uses_.rbegin()->first + step_;
}

EnergyLedger EnergyLedger::part(UtcTime from, UtcTime to) const {
  EnergyLedger result(step_);
  if (to <= from) return result;
  result.uses_.insert(uses_.lower_bound(from), uses_.lower_bound(to));
  return result;
}

}  // namespace harpe::carbon
