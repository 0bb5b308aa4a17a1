#pragma once
/// \file
/// Memory clock and power limit of a rank's GPU: what training wants them to be throughout an
/// assignment, and what the agent makes of it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/node/node_client/clock_channel.h"
#include "harpe/plan/instruction/knobs.h"

namespace harpe {

/// `want` and `refuses` are thread-safe and never wait; the rest is for one thread.
class SteadyKnobs {
 public:
  static constexpr Seconds kRetry{60};  ///< of what was refused

  explicit SteadyKnobs(std::function<void(const std::string&)> log) : log_(std::move(log)) {}

  /// From now on; labels do not count. What is not given is as before the lease.
  void want(const Knobs& knobs) noexcept { wanted_ = word_of(knobs); }
  /// Whether the agent has refused just these.
  bool refuses(const Knobs& knobs) const noexcept { return refused_ == word_of(knobs); }

  /// Has the agent set what is wanted, where it is not in force, and waits for that. What it
  /// refuses is logged once, leaves none of them set, and is tried again after `kRetry`. Fails
  /// where the channel does.
  Status apply(ClockChannel& channel, Instant now);
  /// Another channel comes: what was in force under the last one is restored.
  void forget() { in_force_ = 0; }

  bool in_force() const { return in_force_ == wanted_; }
  /// Why what is wanted is not in force; empty: it is, or nothing is known yet.
  std::string refusal() const { return refused_ == wanted_ ? refusal_ : std::string(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Megahertz and milliwatts.
  static std::uint64_t word_of(const Knobs& knobs) noexcept;
  static Megahertz clock_of(std::uint64_t word);
  static Watts limit_of(std::uint64_t word);
  Status set(ClockChannel& channel, std::uint64_t wanted);

  std::function<void(const std::string&)> log_;
  std::atomic<std::uint64_t> wanted_ = 0, refused_ = kNone;
  std::uint64_t in_force_ = 0;
  std::string refusal_, told_;
  Instant retry_{};
};

}  // namespace harpe
