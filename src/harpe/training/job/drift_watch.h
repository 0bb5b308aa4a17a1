#pragma once
/// \file
/// Whether stages still use the energy that their plan predicts.
///
/// Ratios of measured to predicted are kept for the last `window` iterations. A stage has moved
/// when at least `needed` of them are off by more than `bound`, all on one side: noise around the
/// bound is no drift. Single iterations, whatever they use, say nothing.
///
/// Not thread-safe.

#include <cstddef>
#include <span>
#include <vector>

namespace harpe::training {

class DriftWatch {
 public:
  struct Options {
    int window = 10;
    int needed = 8;
    double bound = 0.05;
  };
  explicit DriftWatch(int stages, Options options);
  explicit DriftWatch(int stages) : DriftWatch(stages, Options()) {}

  /// Measured over predicted energy of each stage, NaN where it is not known.
  /// \param all           of the iteration, waiting included
  /// \param computations  of its computations alone
  void add(std::span<const double> all, std::span<const double> computations);
  void reset();

  struct Moved {
    int stage = 0;
    double factor = 1;  ///< of the energy of its computations; NaN: not known
  };
  std::vector<Moved> moved() const;

 private:
  struct Ratios {
    std::vector<double> all, computations;  ///< rings
  };
  Options options_;
  std::vector<Ratios> stages_;
  std::size_t next_ = 0;
};

}  // namespace harpe::training
