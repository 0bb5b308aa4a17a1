#include "harpe/training/job/iteration_collector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/training/job/rank_book.h"

namespace harpe::training {
namespace {

constexpr std::int64_t kAhead = 3;             // iterations ahead of the newest that are accepted
constexpr std::int64_t kBehind = 16;           // iterations behind the newest that are accepted
constexpr std::int64_t kMostUnsent = 100'000;  // iterations that a rank can be ahead of its report
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

}  // namespace

IterationCollector::IterationCollector(JobShape shape, const plan::ScheduleWork& work)
    : shape_(shape), work_(&work) {}

void IterationCollector::reset() {
  open_.clear();
  finished_.clear();
  newest_ = last_finished_ = reached_ = -1;
  astray_.clear();
  astray_count_ = 0;
}

Status IterationCollector::check(const IterationReport& report) const {
  const int stage = report.coordinates.stage;
  for (const InstructionTotals& totals : report.instructions) {
    if (is_fixed_time(totals.kind)) continue;
    const auto item = work_->find(stage, totals.kind, totals.chunk);
    const std::string what =
        std::string(name(totals.kind)) + " on chunk " + std::to_string(totals.chunk);
    const auto same = [&](const InstructionTotals& other) {
      return other.kind == totals.kind && other.chunk == totals.chunk;
    };
    if (std::ranges::count_if(report.instructions, same) > 1) {
      return Error::invalid(text(report.coordinates) + ": " + what + " is there twice");
    }
    if (!item) {
      return Error::invalid(text(report.coordinates) + ": the schedule has no " + what +
                            " on stage " + std::to_string(stage));
    }
    const int most = work_->stage(stage)[*item].count;
    if (totals.count < 1 || totals.count > most) {
      return Error::invalid(text(report.coordinates) + ": " + std::to_string(totals.count) +
                            " instructions " + what + ", the schedule has " + std::to_string(most) +
                            " on stage " + std::to_string(stage));
    }
    if (!(totals.time >= Seconds{0}) || std::isinf(totals.time.value) ||
        std::isinf(totals.energy.value) || !(totals.energy_error >= Joules{0})) {
      return Error::invalid(text(report.coordinates) + ": time or energy of " + what +
                            " is no number");
    }
  }
  if (!(report.time > Seconds{0}) || std::isinf(report.time.value) ||
      std::isinf(report.energy.value) || !(report.energy_error >= Joules{0})) {
    return Error::invalid(text(report.coordinates) +
                          ": time or energy of the iteration is no number");
  }
  if (report.iteration < 0) {
    return Error::invalid(text(report.coordinates) + ": iterations count from 0");
  }
  return ok_status();
}

/// Notes a rank far from the expected iterations. If more than half of the ranks are, moves to
/// their median iteration and returns true.
bool IterationCollector::follow(std::size_t rank, std::int64_t iteration) {
  if (astray_.empty()) astray_.assign(static_cast<std::size_t>(shape_.ranks()), -1);
  if (astray_[rank] < 0) ++astray_count_;
  astray_[rank] = iteration;
  if (2 * astray_count_ <= shape_.ranks()) return false;
  std::vector<std::int64_t> claims;
  for (const std::int64_t claim : astray_)
    if (claim >= 0) claims.push_back(claim);
  const auto middle = claims.begin() + static_cast<std::ptrdiff_t>(claims.size() / 2);
  std::ranges::nth_element(claims, middle);
  // Ranks already past the middle by one have the next report in hand.
  const std::int64_t at = *middle;
  reset();
  newest_ = at;
  last_finished_ = at - 1;
  return true;
}

std::int64_t IterationCollector::reached(const IterationReport& report) {
  if (report.reached < 0) return report.iteration + 1;
  return std::clamp(report.reached, report.iteration, report.iteration + kMostUnsent);
}

Result<IterationCollector::Added> IterationCollector::add(const IterationReport& report) {
  HARPE_TRY(check(report));
  const std::size_t rank = shape_.index(report.coordinates);
  Added added;
  if (newest_ < 0) {
    newest_ = report.iteration;
    last_finished_ = report.iteration - 1;
  }
  if (report.iteration > newest_ + kAhead || report.iteration < newest_ - kBehind) {
    const std::int64_t before = newest_, on_the_way = reached_;
    if (!follow(rank, report.iteration)) return added;
    added.moved = newest_ <= before || newest_ > on_the_way;
    if (!added.moved) reached_ = on_the_way;
    if (report.iteration > newest_ + kAhead) return added;
  } else if (astray_count_ > 0 && astray_[rank] >= 0) {
    astray_[rank] = -1;
    --astray_count_;
  }
  reached_ = std::max(reached_, reached(report));
  if (report.iteration <= last_finished_) return added;
  Open& slot = open(report.iteration);
  if (slot.reported[rank]) return added;
  slot.reported[rank] = true;
  ++slot.count;
  put(slot, report);
  added.used = true;
  newest_ = std::max(newest_, report.iteration);
  finish_until(slot.count == shape_.ranks() ? report.iteration : report.iteration - 2);
  return added;
}

IterationCollector::Open& IterationCollector::open(std::int64_t iteration) {
  const auto found = std::ranges::lower_bound(open_, iteration, {},
                                              [](const Open& o) { return o.content.iteration; });
  if (found != open_.end() && found->content.iteration == iteration) return *found;
  Open fresh;
  fresh.content.iteration = iteration;
  fresh.content.items = work_->items();
  const std::size_t numbers = static_cast<std::size_t>(shape_.data) * work_->items();
  fresh.content.groups.resize(static_cast<std::size_t>(shape_.groups()));
  fresh.content.item_time.assign(numbers, kUnknown);
  fresh.content.item_energy.assign(numbers, kUnknown);
  fresh.content.item_error.assign(numbers, 0);
  fresh.reported.resize(static_cast<std::size_t>(shape_.ranks()));
  return *open_.insert(found, std::move(fresh));
}

void IterationCollector::put(Open& slot, const IterationReport& report) {
  const int stage = report.coordinates.stage;
  GroupIteration& group = slot.content.groups[shape_.group(report.coordinates.data, stage)];
  const bool first = group.ranks++ == 0;
  if (first) group.version = report.version;
  group.same_version = group.same_version && group.version == report.version;
  group.throttled = group.throttled || report.throttled;
  if (report.clock > Megahertz{0}) {
    const bool is_known = group.clock > Megahertz{0};
    group.clock = is_known ? std::min(group.clock, report.clock) : report.clock;
  }
  group.time = std::max(group.time, report.time);
  group.energy += report.energy;
  group.energy_error = {std::hypot(group.energy_error.value, report.energy_error.value)};
  for (const InstructionTotals& totals : report.instructions) {
    if (is_fixed_time(totals.kind)) continue;
    const std::size_t at =
        slot.content.item(report.coordinates.data,
                          work_->first(stage) + *work_->find(stage, totals.kind, totals.chunk));
    const auto time = static_cast<float>(totals.time.value / totals.count);
    const auto energy = static_cast<float>(totals.energy.value / totals.count);
    const auto error = static_cast<float>(totals.energy_error.value / totals.count);
    float& longest = slot.content.item_time[at];
    longest = std::isnan(longest) ? time : std::max(longest, time);
    float& sum = slot.content.item_energy[at];
    sum = first ? energy : sum + energy;
    slot.content.item_error[at] = std::hypot(slot.content.item_error[at], error);
  }
}

void IterationCollector::finish_until(std::int64_t iteration) {
  if (iteration <= last_finished_) return;
  const auto end =
      std::ranges::find_if(open_, [&](const Open& o) { return o.content.iteration > iteration; });
  for (auto slot = open_.begin(); slot != end; ++slot)
    finished_.push_back(std::move(slot->content));
  open_.erase(open_.begin(), end);
  last_finished_ = iteration;
}

}  // namespace harpe::training
