#include "harpe/training/client/look_ahead.h"

#include <algorithm>

namespace harpe::training {

void LookAhead::Durations::add(double value) {
  seconds[static_cast<std::size_t>(count % kKept)] = static_cast<float>(value);
  ++count;
}

Seconds LookAhead::Durations::shortest() const {
  return {*std::min_element(seconds.begin(), seconds.begin() + std::min(count, kKept))};
}

Seconds LookAhead::Durations::longest() const {
  return {*std::max_element(seconds.begin(), seconds.begin() + std::min(count, kKept))};
}

/// Null where none is known.
const LookAhead::Durations* LookAhead::durations_of(const Running& running) const {
  const Place& place = places_[static_cast<std::size_t>(running.position)];
  if (place.clock == running.clock && place.durations.is_known()) return &place.durations;
  const auto known = kinds_.find({running.kind, running.chunk, running.clock.value});
  return known == kinds_.end() ? nullptr : &known->second;
}

void LookAhead::begin(const Running& running, Instant at) {
  ask_.reset();
  running_.reset();
  if (running.position < 0 || running.position >= static_cast<int>(places_.size())) return;
  running_ = running;
  began_ = at;
  if (running.next == running.clock) return;
  const Durations* const durations = durations_of(running);
  if (durations == nullptr) return;
  const Seconds until = std::max(durations->shortest() - asking_.time(running.next),
                                 durations->longest() - asking_.least(running.next));
  ask_ = {at + std::max(until, Seconds{0}), running.step, running.next};
}

void LookAhead::end(Instant at) {
  ask_.reset();
  if (!running_) return;
  const double took = (at - began_).value;
  const Running running = *running_;
  running_.reset();
  if (!(took >= 0)) return;
  Place& place = places_[static_cast<std::size_t>(running.position)];
  if (place.clock != running.clock) place = {running.clock, {}};
  place.durations.add(took);
  kinds_[{running.kind, running.chunk, running.clock.value}].add(took);
}

}  // namespace harpe::training
