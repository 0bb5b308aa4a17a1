#include "harpe/job/all_max_baseline.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

constexpr double kToDeviation = 1.4826;  // from the median absolute deviation, normal distribution
/// Of a median over a mean of as many normal values: the square root of pi / 2.
constexpr double kMedianLoss = 1.2533;

template <class Value>
void keep(std::deque<Value>& values, const Value& value) {
  values.push_back(value);
  if (values.size() > AllMaxBaseline::kNewest) values.pop_front();
}

double middle(const std::deque<double>& values) {
  const std::vector<double> all(values.begin(), values.end());
  return all.empty() ? 0 : quantile(all, 0.5);
}

double robust_deviation(const std::deque<double>& values) {
  const double center = middle(values);
  std::deque<double> off;
  for (const double value : values) off.push_back(std::abs(value - center));
  return kToDeviation * middle(off);
}

}  // namespace

void AllMaxBaseline::add_time(Seconds time, Seconds explained) {
  keep(times_, Time{time, explained});
}

void AllMaxBaseline::add_energy(std::span<const double> energy) {
  for (std::size_t stage = 0; stage < energy_.size(); ++stage)
    if (std::isfinite(energy[stage])) keep(energy_[stage], energy[stage]);
}

void AllMaxBaseline::explain(Seconds explained) {
  for (Time& one : times_)
    if (one.explained == Seconds{0}) one.explained = explained;
}

bool AllMaxBaseline::has_energy() const {
  return std::ranges::none_of(energy_, [](const auto& stage) { return stage.empty(); });
}

Seconds AllMaxBaseline::time() const {
  std::deque<double> times;
  for (const Time& one : times_) times.push_back(one.time.value);
  return {middle(times)};
}

Seconds AllMaxBaseline::overhead() const {
  std::deque<double> beyond;
  for (const Time& one : times_) beyond.push_back((one.time - one.explained).value);
  return {middle(beyond)};
}

double AllMaxBaseline::deviation() const {
  std::deque<double> beyond;
  for (const Time& one : times_) beyond.push_back((one.time - one.explained).value);
  return times_.empty() ? 0 : robust_deviation(beyond) / time().value;
}

Joules AllMaxBaseline::energy(int stage) const {
  return {middle(energy_[static_cast<std::size_t>(stage)])};
}

Joules AllMaxBaseline::energy() const {
  Joules sum{0};
  for (const auto& stage : energy_) sum += Joules{middle(stage)};
  return sum;
}

Joules AllMaxBaseline::energy_error() const {
  double variance = 0;
  std::size_t fewest = kNewest;
  for (const auto& stage : energy_) {
    if (stage.size() < 2) return energy();
    fewest = std::min(fewest, stage.size());
    const double error = kMedianLoss * robust_deviation(stage) / std::sqrt(stage.size());
    variance += error * error;
  }
  return {student_quantile(static_cast<int>(fewest) - 1) * std::sqrt(variance)};
}

AllMaxBaseline::Kept AllMaxBaseline::kept() const {
  Kept kept;
  for (const Time& one : times_) {
    kept.time.push_back(one.time.value);
    kept.explained.push_back(one.explained.value);
  }
  for (const auto& stage : energy_) kept.energy.emplace_back(stage.begin(), stage.end());
  return kept;
}

void AllMaxBaseline::restore(const Kept& kept) {
  forget();
  for (std::size_t i = 0; i < kept.time.size(); ++i) add_time({kept.time[i]}, {kept.explained[i]});
  for (std::size_t stage = 0; stage < energy_.size(); ++stage)
    for (const double energy : kept.energy[stage]) keep(energy_[stage], energy);
}

void AllMaxBaseline::forget_energy() {
  for (auto& stage : energy_) stage.clear();
}

void AllMaxBaseline::forget() {
  forget_time();
  forget_energy();
}

}  // namespace harpe
