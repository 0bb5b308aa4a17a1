#pragma once
/// \file
/// Least-squares fit of a falling exponential, for Perseus's published algorithm. Pure.

#include <cmath>
#include <optional>
#include <span>

namespace harpe::plan {

/// y = scale exp(rate x) + offset, with scale > 0 and rate < 0.
struct Exponential {
  double scale = 0, rate = 0, offset = 0;
  double operator()(double x) const { return scale * std::exp(rate * x) + offset; }
};

/// Returns the exponential with the least squared error. For a given rate the best scale and offset
/// are a linear problem, so only the rate is searched: the best of a grid, then by golden section.
/// \param x, y  at least three values each, of the same length
/// \returns  nullopt if no falling exponential fits better than a constant
std::optional<Exponential> fit_exponential(std::span<const double> x, std::span<const double> y);

}  // namespace harpe::plan
