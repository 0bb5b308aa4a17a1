#pragma once
/// \file
/// Manners in which the power of a device runs on: Gaussian processes around an unknown level, and
/// how readings of energy over spans of time vary together under each. Private to the room.

#include <span>
#include <vector>

namespace harpe {

/// How power varies around its level: correlation exp(-|t| / length) cos(2 pi frequency t). Times
/// are in periods of the counter's steps.
struct PowerKernel {
  double length = 0;
  double frequency = 0;
};

/// One manner: a kernel, the amplitude as a share of the level, and how far the counter's steps
/// stray, in units of what is known of that.
struct PowerManner {
  std::size_t kernel = 0;  ///< in `power_kernels()`
  double amplitude = 0;
  double jitter = 1;
  double log_prior = 0;
};

std::span<const PowerKernel> power_kernels();
/// In the order of their kernels.
std::span<const PowerManner> power_manners();

/// By how much variances grow where only so many readings tell how rough power is: about what
/// Student's t is wider than the normal distribution. Steady power is known without.
double unsure_amplitude(std::size_t manner, std::size_t readings);

/// Double integral of the correlation: covariances of energies are differences of it.
class TwiceIntegrated {
 public:
  TwiceIntegrated(const PowerKernel& kernel, double period);
  /// The second antiderivative that is 0 and flat at 0.
  double operator()(double time) const;
  /// Of the differences of all pairs of rising times: a square, row by row.
  void of_differences(std::span<const double> times, std::span<double> values) const;

 private:
  double decay_, swing_, linear_ = 0, real_ = 0, imaginary_ = 0;
};

/// Covariances of energy over spans of time between some instants, for amplitude 1 W.
class SpanCovariance {
 public:
  /// \param instants  any order; O(instants^2)
  SpanCovariance(const PowerKernel& kernel, double period, std::span<const double> instants);
  /// From instants a to b, and c to d, by their numbers.
  double operator()(std::size_t a, std::size_t b, std::size_t c, std::size_t d) const {
    return at(b, c) - at(b, d) - at(a, c) + at(a, d);
  }

 private:
  double at(std::size_t i, std::size_t j) const { return values_[index_[i] * count_ + index_[j]]; }

  std::size_t count_ = 0;           ///< of different instants
  std::vector<std::size_t> index_;  ///< of each instant among those
  std::vector<double> values_;
};

/// Without the constant.
double log_normal(double off, double variance);
/// Of the sum of exponentials.
double log_sum(std::span<const double> terms);

}  // namespace harpe
