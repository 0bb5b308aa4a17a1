#pragma once
/// \file
/// Whether iterations still take what their plan predicts.
///
/// Ratios of measured to predicted are kept for the last `window` iterations. Something has moved
/// when at least `needed` of them are beyond the bound: slower (time), or off in either direction
/// (energy of a stage). Single iterations, whatever they take, say nothing.
///
/// Not thread-safe.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace harpe {

class DriftWatch {
 public:
  struct Options {
    int window = 10;
    int needed = 8;
    double slower = 0.03;  ///< above the time promised, as a fraction
    double energy = 0.05;  ///< off the energy predicted of a stage
  };
  explicit DriftWatch(int stages, Options options);
  explicit DriftWatch(int stages) : DriftWatch(stages, Options()) {}

  /// \param time    of the iteration, measured over predicted
  /// \param energy  of each stage, measured over predicted; NaN: not known
  void add(double time, std::span<const double> energy);
  void reset();

  /// The middle of the time ratios, if nearly all are beyond the bound.
  std::optional<double> slower() const;
  /// Stages whose energy is off.
  std::vector<int> moved() const;

 private:
  Options options_;
  std::vector<std::vector<double>> energy_;  ///< of each stage, a ring
  std::vector<double> time_;                 ///< a ring
  std::size_t next_ = 0;
};

}  // namespace harpe
