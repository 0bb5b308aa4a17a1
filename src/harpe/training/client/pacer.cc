#include "harpe/training/client/pacer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace harpe::training {
namespace {

constexpr Seconds kLook = plan::AskingAhead::kSeenWithin, kIdleLook{0.01};
/// Longer than a stage waits between two instructions: until then the client sees in time that one
/// has begun (`AskingAhead::kSeenWithin`).
constexpr Seconds kIdleAfter{10};

}  // namespace

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
