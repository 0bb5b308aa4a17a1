#pragma once
/// \file
/// A weighted combination of forecasters, by their recent accuracy.

#include <memory>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// For each horizon, the weighted mean of the members' forecasts (logarithms), with weights
///
///     exp(-sharpness (L / Lbest - 1))
///
/// where L is a member's mean absolute error at that horizon, in the logarithm, discounted with
/// age. A member counts once it has a day of errors. Until the first member in the list that gives
/// a forecast has a day of errors, it is used alone: it is the most trusted one. An error is known
/// only when the target is; forecasts are kept until then. A step costs the members' forecasts and
/// O(members horizon).
///
/// Source: weights of the exponentially weighted average forecaster (Cesa-Bianchi and Lugosi 2006,
/// section 2.1), over a discounted loss.
class Combination final : public Forecaster {
 public:
  Combination(std::vector<std::unique_ptr<Forecaster>> members, const ForecastGrid& grid);

  std::string name() const override { return "combination"; }
  void observe(const LogHistory& history) override;
  bool forecast(const LogHistory& history, std::span<double> ahead) override;

  std::size_t members() const { return members_.size(); }
  std::string member_name(std::size_t member) const { return members_[member]->name(); }
  /// Returns a member's forecast at the newest step; empty if it gave none.
  std::span<const double> member_forecast(std::size_t member) const;

 private:
  struct Issue {
    std::vector<std::vector<double>> ahead;  ///< by member; empty if it gave none
  };
  struct Score {
    double loss = 0, weight = 0;  ///< discounted sums
    std::size_t errors = 0;
  };

  /// Returns true if enough errors of the member k + 1 steps ahead are known.
  bool counts(std::size_t member, std::size_t k) const;
  double weighed(const std::vector<std::vector<double>>& ahead, std::size_t k) const;
  void score(const LogHistory& history);

  std::vector<std::unique_ptr<Forecaster>> members_;
  ForecastGrid grid_;
  double decay_;
  std::vector<Issue> issues_;               ///< of step i at i % horizon
  std::vector<std::vector<Score>> scores_;  ///< by member and horizon
  std::size_t steps_ = 0;
};

}  // namespace harpe::carbon
