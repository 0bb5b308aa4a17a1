#include "harpe/client/look_ahead.h"

#include <algorithm>

namespace harpe {

void LookAhead::Durations::add(double value) {
  seconds[static_cast<std::size_t>(count % kKept)] = static_cast<float>(value);
  ++count;
}

std::optional<double> LookAhead::Durations::longest() const {
  if (count == 0) return std::nullopt;
  return *std::max_element(seconds.begin(), seconds.begin() + std::min(count, kKept));
}

void LookAhead::begin(const Running& running, Instant at) {
  ask_.reset();
  running_.reset();
  if (running.position < 0 || running.position >= static_cast<int>(places_.size())) return;
  running_ = running;
  began_ = at;
  if (running.next == running.clock) return;
  const Place& place = places_[static_cast<std::size_t>(running.position)];
  std::optional<double> duration;
  if (place.clock == running.clock) duration = place.durations.longest();
  if (!duration) {
    const auto known = kinds_.find({running.kind, running.chunk, running.clock.value});
    if (known != kinds_.end()) duration = known->second.longest();
  }
  if (!duration) return;
  const Seconds until = Seconds{*duration} - shortest_switch_;
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

}  // namespace harpe
