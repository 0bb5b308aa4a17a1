#include "harpe/training/job/all_max_baseline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

template <class Value>
void keep(std::deque<Value>& values, const Value& value) {
  values.push_back(value);
  if (values.size() > AllMaxBaseline::kNewest) values.pop_front();
}

double middle(const std::vector<double>& values) {
  return values.empty() ? 0 : quantile(values, 0.5);
}

double robust_deviation(const std::vector<double>& values) {
  const double center = middle(values);
  std::vector<double> off;
  for (const double value : values) off.push_back(std::abs(value - center));
  return kMadToSigma * middle(off);
}

/// Returns the value of `beyond_of` for each measurement.
template <class Measured, class Beyond>
std::vector<double> beyond(const std::deque<Measured>& measured, const Beyond& beyond_of) {
  std::vector<double> values;
  values.reserve(measured.size());
  for (const Measured& one : measured) values.push_back(beyond_of(one));
  return values;
}

}  // namespace

void AllMaxBaseline::add_time(Seconds time, Seconds explained, std::vector<Seconds> computing) {
  if (explained != Seconds{0}) computing.clear();
  keep(times_, Time{time, explained, std::move(computing)});
}

void AllMaxBaseline::add_energy(std::span<const StageEnergy> stages) {
  bool is_whole = true;
  for (std::size_t stage = 0; stage < energy_.size(); ++stage) {
    const bool is_known = std::isfinite(stages[stage].energy);
    if (is_known) keep(energy_[stage], stages[stage]);
    is_whole = is_whole && is_known;
  }
  if (is_whole) added_ = std::min(added_ + 1, kNewest);
}

std::vector<double> AllMaxBaseline::take_unexplained(const Explained& explained) {
  std::size_t count = std::exchange(added_, 0);
  for (const auto& stage : energy_) count = std::min(count, stage.size());
  std::vector<double> sums(count);
  for (std::size_t stage = 0; stage < energy_.size(); ++stage) {
    const auto& all = energy_[stage];
    for (std::size_t i = 0; i < count; ++i) {
      const StageEnergy& one = all[all.size() - count + i];
      sums[i] += one.energy - explained(static_cast<int>(stage), one);
    }
  }
  return sums;
}

void AllMaxBaseline::explain(
    const std::function<Seconds(std::span<const Seconds> computing)>& explained) {
  for (Time& one : times_) {
    if (one.explained != Seconds{0}) continue;
    one.explained = explained(one.computing);
    one.computing.clear();
  }
}

Seconds AllMaxBaseline::time() const {
  return {lower_median(beyond(times_, [](const Time& one) { return one.time.value; }))};
}

std::vector<double> AllMaxBaseline::overheads() const {
  return beyond(times_, [](const Time& one) { return (one.time - one.explained).value; });
}

Seconds AllMaxBaseline::overhead() const {
  return {lower_median(overheads())};
}

double AllMaxBaseline::deviation() const {
  if (times_.empty()) return 0;
  return robust_deviation(overheads()) / time().value;
}

Joules AllMaxBaseline::energy() const {
  double sum = 0;
  for (const auto& stage : energy_)
    sum += middle(beyond(stage, [](const StageEnergy& one) { return one.energy; }));
  return {sum};
}

double AllMaxBaseline::unexplained(int stage, const Explained& explained) const {
  return middle(beyond(energy_[static_cast<std::size_t>(stage)],
                       [&](const StageEnergy& one) { return one.energy - explained(stage, one); }));
}

AllMaxBaseline::Kept AllMaxBaseline::kept() const {
  Kept kept{.times = {times_.begin(), times_.end()}, .energy = {}, .not_taken = added_};
  for (const auto& stage : energy_) kept.energy.emplace_back(stage.begin(), stage.end());
  return kept;
}

void AllMaxBaseline::restore(const Kept& kept) {
  times_.assign(kept.times.begin(), kept.times.end());
  for (std::size_t stage = 0; stage < energy_.size(); ++stage)
    energy_[stage].assign(kept.energy[stage].begin(), kept.energy[stage].end());
  added_ = kept.not_taken;
}

void AllMaxBaseline::forget() {
  forget_time();
  for (auto& stage : energy_) stage.clear();
  added_ = 0;
}

}  // namespace harpe::training
