#pragma once
/// \file
/// What a hosted job has of carbon control: its terms, how many iterations are done, and the state
/// and the last decision of its controller. On the loop's thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/training/carbon_control/carbon_controller.h"
#include "harpe/training/carbon_control/control_state.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::training {

class HostedJob;

/// The part of a stored job that `JobCarbon::text` is.
inline constexpr const char* kCarbonPart = "carbon";

class JobCarbon {
 public:
  /// Follows the job: its specification may have other terms, its ranks may have reported.
  /// \param newest  iteration of the newest report in this start of training; -1: none
  /// \param of_specification  its terms as JSON; empty: it has none
  void follow(const std::string& of_specification, std::int64_t newest);
  /// Other terms, or none. What is known of the job's progress stays.
  void set(std::optional<CarbonTerms> terms);
  /// A decision by these terms. \param revision  of the terms by which it was made
  /// \returns  whether it still counts
  bool decided(std::uint64_t revision, ControlState state, CarbonDecision decision, Seconds wall,
               Seconds now);
  /// Whether one is due, and none is being made.
  bool is_due(Seconds wall) const;
  void decide_soon() { due_ = Seconds{0}; }
  bool deciding = false;

  const std::optional<CarbonTerms>& terms() const { return terms_; }
  const ControlState& state() const { return state_; }
  const std::optional<CarbonDecision>& decision() const { return decision_; }
  std::int64_t done() const { return count_.done(); }
  std::uint64_t revision() const { return revision_; }
  /// The job is to go by its objective again.
  bool take_ended() { return std::exchange(ended_, false); }
  std::vector<HostedEffects::Event> take_events() { return std::exchange(events_, {}); }
  bool needs_saving() const { return changed_; }

  /// For the store; empty where it has not changed since.
  std::string take_changed_text();
  /// Fails where it is damaged, and is left as it was then.
  Status read(std::string_view text);

 private:
  void say(const CarbonDecision& decision, Seconds now);

  std::optional<CarbonTerms> terms_;
  std::string adopted_;  ///< the terms of the specification that were taken over last
  IterationCount count_;
  ControlState state_;
  std::optional<CarbonDecision> decision_;
  Seconds due_{};  ///< since 1970
  Seconds decided_at_{};
  std::uint64_t revision_ = 0;
  bool changed_ = false, ended_ = false;
  std::vector<HostedEffects::Event> events_;
};

}  // namespace harpe::training
