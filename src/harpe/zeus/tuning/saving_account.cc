#include "harpe/zeus/tuning/saving_account.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::zeus {
namespace {

// Standard deviation of log r that is assumed before any two looks were compared.
constexpr double kUnseenMove = 0.01;
// Error of a visit that was not measured, as a share of its energy.
constexpr double kUnmeasured = 0.3;
// Entries of fewer steps are added to the next of their visit.
constexpr std::int64_t kFullEntry = 20;
constexpr std::int64_t kCompared = 10;
// From the mean absolute difference of two values to the standard deviation of one: sqrt(pi) / 2.
constexpr double kDifferenceToSigma = 0.8862;
// Highest plausible ratio between the costs of a step under two settings. A higher ratio results
// from a wrong count of steps, for example if several lines were written at once.
constexpr double kMostRatio = 5;
// Number of newest looks that determine the current slowdown of a setting.
constexpr std::size_t kNewestLooks = 4;

/// Returns the relative variance of the cost of a step.
double relative_variance(const MeasuredSteps& one, bool is_of_time) {
  const double error = is_of_time ? one.time_error / one.time : one.error / one.energy;
  return square(error / kNinetyFivePercent);
}

MeasuredSteps& operator+=(MeasuredSteps& sum, const MeasuredSteps& more) {
  sum.steps += more.steps;
  sum.time += more.time;
  sum.energy += more.energy;
  sum.error = {std::hypot(sum.error.value, more.error.value)};
  sum.time_error = {std::hypot(sum.time_error.value, more.time_error.value)};
  return sum;
}

}  // namespace

/// Steps at the highest setting, and the entries on both sides of it.
struct SavingAccount::Look {
  std::size_t begin = 0, end = 0;  ///< entries [begin, end)
  double cost = 0;                 ///< cost of a step
  double variance = 0;             ///< relative
};

/// log r of one look and setting.
struct SavingAccount::Ratio {
  double log = 0, variance = 0;
};

struct SavingAccount::Total {
  double used = 0, saved = 0, at_highest = 0, error = 0;
  double unknown = 0;         ///< part of `used` for which no saving is claimed
  double seen_deviation = 0;  ///< deviation by the observed moves between looks
};

void SavingAccount::step(std::size_t setting, Seconds took) {
  enter(setting);
  pending_ += took.value;
}

void SavingAccount::enter(std::size_t setting) {
  if (setting == setting_) return;
  close_visit();
  setting_ = setting;
}

void SavingAccount::close_visit() {
  const double rest = std::exchange(pending_, 0);
  last_cost_.reset();
  if (std::exchange(entries_of_visit_, 0) > 0) {
    entries_.back().active += rest;
  } else if (setting_ != 0) {
    unmeasured_ += rest;
  }
}

void SavingAccount::add(std::size_t setting, const MeasuredSteps& measured) {
  enter(setting);
  const double active = std::exchange(pending_, 0);
  compare_with_last(measured);
  if (entries_of_visit_ > 0) {
    Entry& newest = entries_.back();
    const bool both_counted = (newest.measured.steps == 0) == (measured.steps == 0);
    if (both_counted && newest.measured.steps < kFullEntry) {
      newest.measured += measured;
      newest.active += active;
      return;
    }
  }
  // A visit keeps its first and its newest entry, which looks are compared with, and merges the
  // entries between them into one.
  if (entries_of_visit_ >= 3) {
    Entry& between = entries_[entries_.size() - 2];
    between.measured += entries_.back().measured;
    between.active += entries_.back().active;
    entries_.pop_back();
    --entries_of_visit_;
  }
  entries_.push_back({.setting = setting, .measured = measured, .active = active});
  ++entries_of_visit_;
}

/// Adds the change of the step cost since the last window. Ignores windows of few steps, which
/// differ by chance.
void SavingAccount::compare_with_last(const MeasuredSteps& measured) {
  if (measured.steps < kCompared) return;
  const double cost = std::log(measured.energy.value / static_cast<double>(measured.steps));
  if (last_cost_) {
    changes_ += std::abs(cost - *last_cost_);
    ++changes_counted_;
  }
  last_cost_ = cost;
}

void SavingAccount::add_known(std::size_t setting, const MeasuredSteps& measured) {
  // A separate visit, even if the visit before or after has the same setting.
  close_visit();
  entries_.push_back({.setting = setting, .measured = measured});
}

std::vector<SavingAccount::Entry> SavingAccount::complete() const {
  std::vector<Entry> entries = entries_;
  if (entries_of_visit_ > 0) entries.back().active += pending_;
  return entries;
}

/// Returns the looks. A long visit to the highest setting is two looks: its first and last entry.
std::vector<SavingAccount::Look> SavingAccount::looks_of(const std::vector<Entry>& entries,
                                                         Weights weights) {
  std::vector<Look> looks;
  const auto look_at = [&](std::size_t begin, std::size_t end) {
    Look look{.begin = begin, .end = end};
    MeasuredSteps sum;
    for (std::size_t i = begin; i < end; ++i) sum += entries[i].measured;
    look.cost = weights.of(sum) / static_cast<double>(sum.steps);
    look.variance = relative_variance(sum, weights.joules == 0);
    looks.push_back(look);
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto is_of_look = [&entries](std::size_t at) {
      return entries[at].setting == 0 && entries[at].measured.steps > 0;
    };
    if (!is_of_look(i)) continue;
    std::size_t end = i + 1;
    while (end < entries.size() && is_of_look(end)) ++end;
    if (end - i <= 2) {
      look_at(i, end);
    } else {
      look_at(i, i + 1);
      look_at(end - 1, end);
    }
    i = end - 1;
  }
  return looks;
}

/// Returns nullopt if the setting was measured neither just before the look nor just after it.
std::optional<SavingAccount::Ratio> SavingAccount::ratio_at(const std::vector<Entry>& entries,
                                                            const std::vector<Look>& looks,
                                                            std::size_t look, std::size_t setting,
                                                            Weights weights) {
  const std::size_t first = look == 0 ? 0 : looks[look - 1].end;
  const std::size_t last = look + 1 < looks.size() ? looks[look + 1].begin : entries.size();
  Ratio ratio{.log = std::log(looks[look].cost), .variance = looks[look].variance};
  double logs = 0, variances = 0, count = 0;
  const auto compare = [&](const MeasuredSteps& one) {
    logs += std::log(weights.of(one) / static_cast<double>(one.steps));
    variances += relative_variance(one, weights.joules == 0);
    ++count;
  };
  for (std::size_t i = looks[look].begin; i-- > first;) {
    if (entries[i].setting != setting || entries[i].measured.steps == 0) continue;
    compare(entries[i].measured);
    break;
  }
  for (std::size_t i = looks[look].end; i < last; ++i) {
    if (entries[i].setting != setting || entries[i].measured.steps == 0) continue;
    compare(entries[i].measured);
    break;
  }
  if (count == 0) return std::nullopt;
  ratio.log -= logs / count;
  ratio.variance += variances / square(count);
  if (!(std::abs(ratio.log) < std::log(kMostRatio))) return std::nullopt;
  return ratio;
}

/// The sums over a run.
struct SavingAccount::Sums {
  explicit Sums(std::size_t looks) : rests(looks), rests_variance(looks) {}

  Total total;
  /// For each look: the energy that is compared with it, and that energy times the look's variance.
  std::vector<double> rests, rests_variance;
  double moves = 0, pairs = 0;  ///< sum and number of squared moves
  double beyond = 0;            ///< energy compared with one look only

  double own_variance(std::size_t look) const {
    return rests[look] > 0 ? rests_variance[look] / rests[look] : 0;
  }
  /// \param spread  variance of log r between looks
  double variance(double spread) const {
    double variance = 2 * spread * square(beyond);
    for (std::size_t i = 0; i < rests.size(); ++i) {
      variance += square(rests[i]) * std::max(own_variance(i), spread);
    }
    return variance;
  }
  /// Returns the variance by which looks differ beyond the errors of their windows.
  double variance_of_moves() const {
    const double seen = pairs > 0 ? moves / 2 / pairs : 0;
    double variance = 0;
    for (std::size_t i = 0; i < rests.size(); ++i) {
      variance += square(rests[i]) * std::max(0.0, seen - own_variance(i));
    }
    return variance;
  }
  void rest(std::size_t look, const Ratio& ratio, double weight) {
    rests[look] += weight;
    rests_variance[look] += weight * ratio.variance;
  }
};

/// Adds entries [begin, end), all at lower settings.
/// \param next  the look after them; `looks.size()` if there is none
void SavingAccount::add_between(Sums& sums, const std::vector<Entry>& entries,
                                const std::vector<Look>& looks, std::size_t begin, std::size_t end,
                                std::size_t next, Weights weights) {
  // A setting tried long before a look is not compared with it if the look before is available:
  // steps may have become longer since then.
  const auto is_near = [&](std::size_t setting) {
    const std::size_t after = looks[next].end;
    return entries[end - 1].setting == setting ||
           (after < entries.size() && entries[after].setting == setting);
  };
  double length = 0, passed = 0, moved = 0, moved_weight = 0;
  for (std::size_t i = begin; i < end; ++i) length += entries[i].active;
  for (std::size_t i = begin; i < end; ++i) {
    const Entry& entry = entries[i];
    const double used = weights.of(entry.measured) * (entry.active / entry.measured.time.value);
    const double share = length > 0 ? (passed + entry.active / 2) / length : 0;
    passed += entry.active;
    sums.total.used += used;
    std::optional<Ratio> left, right;
    if (next > 0) left = ratio_at(entries, looks, next - 1, entry.setting, weights);
    if (next < looks.size() && (!left || is_near(entry.setting))) {
      right = ratio_at(entries, looks, next, entry.setting, weights);
    }
    // Without a look, the cost at the highest setting is unknown.
    if (!left && !right) {
      sums.total.unknown += used;
      continue;
    }
    const double to_right = !right ? 0 : !left ? 1 : share;
    const double log =
        (left ? (1 - to_right) * left->log : 0) + (right ? to_right * right->log : 0);
    const double at_highest = used * std::exp(log);
    sums.total.at_highest += at_highest;
    sums.total.saved += at_highest - used;
    if (left) sums.rest(next - 1, *left, at_highest * (1 - to_right));
    if (right) sums.rest(next, *right, at_highest * to_right);
    if (left && right) {
      moved += used * square(right->log - left->log);
      moved_weight += used;
    } else {
      sums.beyond += at_highest;
    }
  }
  if (moved_weight <= 0) return;
  sums.moves += moved / moved_weight;
  ++sums.pairs;
}

SavingAccount::Total SavingAccount::total(Weights weights) const {
  const std::vector<Entry> entries = complete();
  const std::vector<Look> looks = looks_of(entries, weights);
  Sums sums(looks.size());
  double joules = 0, seconds = 0;
  std::size_t next = 0;  // look after the entry
  for (std::size_t begin = 0; begin < entries.size();) {
    const Entry& entry = entries[begin];
    joules += weights.of(entry.measured);
    seconds += entry.measured.time.value;
    if (entry.setting == 0) {
      const double used = weights.of(entry.measured) * (entry.active / entry.measured.time.value);
      sums.total.used += used;
      sums.total.at_highest += used;
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < entries.size() && entries[end].setting != 0) ++end;
    while (next < looks.size() && looks[next].begin < end) ++next;
    add_between(sums, entries, looks, begin, end, next, weights);
    begin = end;
  }
  const double change = changes_counted_ > 0 ? changes_ / changes_counted_ : 0;
  const double spread = std::max((square(kUnseenMove) + sums.moves / 2) / (sums.pairs + 1),
                                 square(kDifferenceToSigma * change));
  const double variance = sums.variance(spread);
  const bool is_unmeasured = setting_ != 0 && entries_of_visit_ == 0;
  const double not_measured = unmeasured_ + (is_unmeasured ? pending_ : 0);
  if (seconds > 0) sums.total.unknown += joules / seconds * not_measured;
  const double known = student_quantile(static_cast<int>(sums.pairs) + 2) * std::sqrt(variance);
  sums.total.error = std::hypot(known, kUnmeasured * sums.total.unknown);
  sums.total.seen_deviation = std::sqrt(sums.variance_of_moves());
  return sums.total;
}

Saving SavingAccount::saving(Watts host_power) const {
  const Total total = this->total({.joules = 1, .seconds = host_power.value});
  const double saved = std::min(total.saved, total.used);
  return {.saved = {saved},
          .error = {std::hypot(total.error, total.saved - saved)},
          .at_highest = {total.at_highest}};
}

SavingAccount::Delay SavingAccount::delay() const {
  const Total total = this->total({.joules = 0, .seconds = 1});
  return {.beyond = {-total.saved},
          .deviation = {total.seen_deviation},
          .at_highest = {total.at_highest}};
}

std::optional<SavingAccount::Slowdown> SavingAccount::slowdown(std::size_t setting) const {
  const Weights time{.joules = 0, .seconds = 1};
  const std::vector<Entry> entries = complete();
  const std::vector<Look> looks = looks_of(entries, time);
  double weight = 0, sum = 0;
  std::size_t count = 0;
  for (std::size_t i = looks.size(); i-- > 0 && count < kNewestLooks;) {
    const auto ratio = ratio_at(entries, looks, i, setting, time);
    if (!ratio) continue;
    const double of_it = 1 / (ratio->variance + 1e-8);
    weight += of_it;
    sum += of_it * ratio->log;
    ++count;
  }
  if (count == 0) return std::nullopt;
  const double slower = std::exp(-sum / weight);
  return Slowdown{.ratio = slower, .error = slower * kNinetyFivePercent / std::sqrt(weight)};
}

std::optional<SavingAccount::Move> SavingAccount::last_move(std::size_t setting,
                                                            Watts host_power) const {
  const Weights weights{.joules = 1, .seconds = host_power.value};
  const std::vector<Entry> entries = complete();
  const std::vector<Look> looks = looks_of(entries, weights);
  if (looks.size() < 2) return std::nullopt;
  const auto newest = ratio_at(entries, looks, looks.size() - 1, setting, weights);
  const auto before = ratio_at(entries, looks, looks.size() - 2, setting, weights);
  if (!newest || !before) return std::nullopt;
  return Move{.log_ratio = newest->log - before->log,
              .error = kNinetyFivePercent * std::sqrt(newest->variance + before->variance)};
}

}  // namespace harpe::zeus
