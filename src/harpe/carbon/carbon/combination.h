#pragma once
/// \file
/// Several forecasters as one, each weighed by how well it did lately.

#include <memory>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// For each horizon by itself, the mean of the members' forecasts (logarithms), weighed with
///
///     exp(-sharpness (L / Lbest - 1))
///
/// where L is a member's mean absolute error at that horizon, in the logarithm, discounted with
/// age. A member counts once it has a day of errors; until the first in the list that gives a
/// forecast has, that one is taken alone: it is the one to trust unseen. Errors are known only when
/// the target is: forecasts wait until then.
/// A step costs the members' forecasts and O(members horizon).
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
  /// What a member said at the newest step; empty where it said nothing.
  std::span<const double> member_forecast(std::size_t member) const;

 private:
  struct Issue {
    std::vector<std::vector<double>> ahead;  ///< by member; empty: it gave none
  };
  struct Score {
    double loss = 0, weight = 0;  ///< discounted sums
    std::size_t errors = 0;
  };

  /// Whether enough is known of its errors k + 1 steps ahead.
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
