#pragma once
/// \file
/// A rank's lease on its GPU at the node's agent: taken, renewed, taken again after the agent was
/// away. Under it go clocks, and the memory clock and power limit of an assignment.

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
  int gpu = 0;        ///< as the agent counts them
  Seconds lease{60};  ///< after which an agent restores the clock of a rank that has gone
  std::string name;   ///< of the lease, for people
  /// False: another rank of the node logs that its agent is away, which all of them see.
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

  /// Sets the wanted values; labels are ignored. A value that is not given stays as before the
  /// lease.
  void want(const Knobs& knobs) noexcept { wanted_ = word_of(knobs); }
  /// Returns true if the agent has refused exactly these values.
  bool refuses(const Knobs& knobs) const noexcept { return refused_ == word_of(knobs); }

  /// Sends the wanted values to the agent if they are not in force, and waits for the response. A
  /// refusal is logged once, resets both values, and is tried again after `kRetry`. Fails if the
  /// channel fails.
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

/// `tell` is for two threads, each with its number, and never waits; the rest is for a third,
/// and waits for the agent (a few seconds where that hangs).
class ClockLink {
 public:
  static constexpr std::size_t kTellers = 2;

  ClockLink(ClockLinkOptions options, WantedClock& wanted, Clock& clock,
            std::function<void(const std::string&)> log);

  /// Connects or renews, where that is due.
  void tick();
  Instant next() const { return next_; }

  /// Asks the agent for this clock, where there is one. 0 MHz takes the lock off.
  void tell(std::size_t teller, Megahertz clock) noexcept {
    if (node::ClockChannel* channel = channels_.acquire(teller)) channel->set(0, clock);
    channels_.release(teller);
  }

  /// Wants these throughout, as soon as the third thread gets to it; from any thread.
  void want(const Knobs& knobs) noexcept { knobs_.want(knobs); }
  /// Whether the agent has refused them; from any thread.
  bool refuses(const Knobs& knobs) const noexcept { return knobs_.refuses(knobs); }
  /// Why what is wanted is not in force, as far as is known. As `tick`, on its thread.
  std::string refusal() const { return knobs_.refusal(); }

  /// Whether all that was asked for since then was done, as far as can be seen now: an agent was
  /// there all the time, responded and refused nothing. As `tick`, on its thread.
  bool obeyed_since(Instant begin);
  /// Whether an agent ever set this GPU's clock: one that has gone may have left it locked.
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
  bool told_away_ = false;  ///< logged that clocks cannot be set
  bool ever_connected_ = false;
  bool told_refusals_ = false;
  // What was last seen of the channel.
  Instant troubled_;                      ///< when something asked for was last seen not to be done
  std::optional<Instant> waiting_since_;  ///< nothing of what was asked for has been served
  std::uint32_t served_ = 0, refused_ = 0;
  node::ClockOutcome told_outcome_ = node::ClockOutcome::kNone;
};

}  // namespace harpe::training
