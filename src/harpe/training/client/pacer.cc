#include "harpe/training/client/pacer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace harpe::training {
namespace {

constexpr Seconds kLook = plan::AskingAhead::kSeenWithin, kIdleLook{0.01};
/// Longer than a stage waits between two instructions, so that the client notices the start of each
/// in time (`AskingAhead::kSeenWithin`).
constexpr Seconds kIdleAfter{10};

}  // namespace

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

/// Returns the expected durations; null if not known.
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

Pacer::Pacer(Parts parts, const Options& options, std::function<void(IterationRecord)> ended)
    : parts_(parts),
      options_(options),
      ended_(std::move(ended)),
      look_ahead_(options.instructions, options.asking),
      thread_([this] { run(); }) {}

void Pacer::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Pacer::run() {
  Instant busy = parts_.clock.now();
  for (;;) {
    const bool some = drain();
    const Instant now = parts_.clock.now();
    if (some) busy = now;
    ask_if_due();
    Seconds pause = now - busy < kIdleAfter ? kLook : kIdleLook;
    if (const auto& ask = look_ahead_.ask()) {
      pause = std::clamp(ask->at - now, Seconds{0}, pause);
    }
    MutexLock lock(mutex_);
    if (stopping_) break;
    if (pause.value <= 0) continue;
    wake_.wait_for(mutex_, std::chrono::duration<double>(pause.value),
                   [this]() HARPE_REQUIRES(mutex_) { return stopping_; });
  }
  drain();
  if (auto last = log_.finish()) ended_(*std::move(last));
}

bool Pacer::drain() {
  RankEvent event;
  bool some = false;
  while (parts_.ring.pop(event)) {
    some = true;
    see(event);
  }
  return some;
}

void Pacer::see(const RankEvent& event) {
  if (options_.asking.is_ahead()) {
    if (event.kind == RankEvent::Kind::kInstructionBegin) {
      look_ahead_.begin({static_cast<int>(event.number), event.instruction, event.chunk,
                         event.clock, event.next_clock, event.step},
                        event.at);
    } else if (event.kind == RankEvent::Kind::kInstructionEnd) {
      look_ahead_.end(event.at);
    }
  }
  if (auto ended = log_.add(event, parts_.ring.lost())) ended_(*std::move(ended));
}

void Pacer::ask_if_due() {
  const auto& ask = look_ahead_.ask();
  if (!ask || ask->at > parts_.clock.now()) return;
  const auto tell = [this](Megahertz clock) {
    if (parts_.clocks != nullptr) parts_.clocks->tell(kTeller, clock);
  };
  if (parts_.wanted.ahead(ask->step, ask->clock, tell)) {
    asked_ahead_.fetch_add(1, std::memory_order_relaxed);
  }
  look_ahead_.taken();
}

}  // namespace harpe::training
