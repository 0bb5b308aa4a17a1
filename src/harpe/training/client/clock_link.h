#pragma once
/// \file
/// A rank's lease on its GPU from the node's agent, with which the rank sets its clock, memory
/// clock and power limit. The lease is renewed, and taken again after an outage of the agent.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/node/node_client/clock_channel.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/client/latest_snapshot.h"
#include "harpe/training/client/wanted_clock.h"

namespace harpe::training {

struct ClockLinkOptions {
  std::filesystem::path socket;
  int gpu = 0;        ///< index by the agent's order
  Seconds lease{60};  ///< after it, the agent restores the clock of a rank that is gone
  std::string name;   ///< of the lease, for display
  /// False if another rank of the node logs that the agent is not reachable.
  bool logs_for_node = true;
  Seconds first_retry{0.5}, longest_retry{30};
};

/// Memory clock and power limit of a rank's GPU: the values that training wants throughout an
/// assignment, and the agent's response. `want` and `refuses` are thread-safe and never wait; the
/// other functions are for one thread.
class SteadyKnobs {
 public:
  static constexpr Seconds kRetry{60};  ///< after a refusal

  explicit SteadyKnobs(std::function<void(const std::string&)> log) : log_(std::move(log)) {}

  /// Sets the wanted values; labels are ignored. A missing value stays as before the lease.
  void want(const Knobs& knobs) noexcept { wanted_ = word_of(knobs); }
  /// Returns true if the agent has refused exactly these values.
  bool refuses(const Knobs& knobs) const noexcept { return refused_ == word_of(knobs); }

  /// Sends the wanted values to the agent if they are not in force, and waits for the response.
  /// After a refusal, logs it once, resets both values, and tries again after `kRetry`. Fails if
  /// the channel fails.
  Status apply(node::ClockChannel& channel, Instant now);
  /// Notes that the channel was replaced: the agent has restored the values of the last one.
  void forget() { in_force_ = 0; }

  bool in_force() const { return in_force_ == wanted_; }
  /// Returns why the wanted values are not in force; empty if they are, or if nothing is known yet.
  std::string refusal() const { return refused_ == wanted_ ? refusal_ : std::string(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Megahertz and milliwatts.
  static std::uint64_t word_of(const Knobs& knobs) noexcept;
  static Megahertz clock_of(std::uint64_t word) { return {static_cast<int>(word >> 32)}; }
  static Watts limit_of(std::uint64_t word);
  Status set(node::ClockChannel& channel, std::uint64_t wanted);

  std::function<void(const std::string&)> log_;
  std::atomic<std::uint64_t> wanted_ = 0, refused_ = kNone;
  std::uint64_t in_force_ = 0;
  std::string refusal_, told_;
  Instant retry_{};
};

/// The link to the agent. `tell` is for two threads, each with its number, and never waits; `want`
/// and `refuses` are for any thread. The other functions are for a third thread and wait for the
/// agent (a few seconds if it hangs).
class ClockLink {
 public:
  static constexpr std::size_t kTellers = 2;

  ClockLink(ClockLinkOptions options, WantedClock& wanted, Clock& clock,
            std::function<void(const std::string&)> log);

  /// Connects or renews the lease if due.
  void tick();
  Instant next() const { return next_; }

  /// Requests this clock from the agent, if connected. 0 MHz unlocks the clock.
  void tell(std::size_t teller, Megahertz clock) noexcept {
    if (node::ClockChannel* channel = channels_.acquire(teller)) channel->set(0, clock);
    channels_.release(teller);
  }

  /// Sets the wanted memory clock and power limit, which `tick` sends.
  void want(const Knobs& knobs) noexcept { knobs_.want(knobs); }
  /// Returns true if the agent has refused these values.
  bool refuses(const Knobs& knobs) const noexcept { return knobs_.refuses(knobs); }
  /// Returns why the wanted values are not in force; empty if they are, or if not known.
  std::string refusal() const { return knobs_.refusal(); }

  /// Returns true if, as far as is known now, the agent was connected since `begin`, responded in
  /// time and refused nothing, so that all requested clocks were set.
  bool obeyed_since(Instant begin);
  /// Returns true if an agent was ever connected. Such an agent may have ended with the clock
  /// locked.
  bool ever_connected() const { return ever_connected_; }

 private:
  void connect();
  void apply_knobs();
  void lost(const Error& error);
  void look();
  void look_at_outcome();

  ClockLinkOptions options_;
  WantedClock& wanted_;
  Clock& clock_;
  std::function<void(const std::string&)> log_;
  LatestSnapshot<node::ClockChannel, kTellers> channels_;
  SteadyKnobs knobs_;
  Instant next_;
  int failures_ = 0;
  bool told_away_ = false;  ///< true after the log entry that clocks cannot be set
  bool ever_connected_ = false;
  bool told_refusals_ = false;
  // The last known state of the channel.
  Instant troubled_;                      ///< when a request was last found not to be in force
  std::optional<Instant> waiting_since_;  ///< time since which the agent has served no request
  std::uint32_t served_ = 0, refused_ = 0;
  node::ClockOutcome told_outcome_ = node::ClockOutcome::kNone;
};

}  // namespace harpe::training
