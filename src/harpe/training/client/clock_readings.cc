#include "harpe/training/client/clock_readings.h"

#include <algorithm>
#include <vector>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

constexpr std::size_t kMostReadings = 4096;  // minutes, should no iteration ask for them

}  // namespace

void ClockReadings::look(Gpu& gpu) {
  if (!enabled_) return;
  const Instant begin = clock_->now();
  const Result<Megahertz> read = gpu.clock(ClockDomain::kGraphics);
  if (!read.ok()) return;
  const Instant middle = begin + (clock_->now() - begin) / 2;
  const MutexLock lock(mutex_);
  if (readings_.size() >= kMostReadings) readings_.pop_front();
  readings_.push_back({middle, *read});
}

Megahertz ClockReadings::during(std::span<const TimedInstruction> instructions) {
  if (instructions.empty()) return {};
  const MutexLock lock(mutex_);
  while (!readings_.empty() && readings_.front().at < instructions.front().span.begin)
    readings_.pop_front();
  std::vector<double> found;
  for (const Reading& reading : readings_) {
    const bool is_computing = std::ranges::any_of(instructions, [&](const TimedInstruction& one) {
      return one.span.begin <= reading.at && reading.at < one.span.end;
    });
    if (is_computing) found.push_back(reading.clock.value);
  }
  if (found.empty()) return {};
  return {static_cast<int>(quantile(std::move(found), 0.5))};
}

}  // namespace harpe::training
