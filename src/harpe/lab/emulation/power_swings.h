#pragma once
/// \file
/// How much a power swings, as operators of grids ask for it: peak against mean, ramps over some
/// seconds, and the spectrum from 0.1 to 20 Hz, where turbines and controls of a grid can
/// oscillate.

#include <span>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::lab {

/// The steepest rise and fall between two moments that far apart, W/s. Both are at least 0.
struct PowerRamp {
  Seconds over;
  double up = 0, down = 0;
};

/// A line of a spectrum: a swing of that frequency between mean - amplitude and mean + amplitude.
struct SpectralLine {
  double hertz = 0;
  Watts amplitude;
};

struct PowerSwings {
  Watts mean, peak, lowest;
  std::vector<PowerRamp> ramps = {};  ///< over 1, 5 and 10 s, as far as the recording is that long
  /// From 0.1 to 20 Hz, rising; empty if the recording is shorter than ten of the longest swings.
  std::vector<SpectralLine> spectrum = {};
  SpectralLine strongest = {};  ///< of the spectrum
};

/// \param watts  mean power of equal steps; not empty
/// Mean of spectra of overlapping parts (Welch 1967), under Hann's window. O(n log n).
PowerSwings swings_of(std::span<const double> watts, Seconds step);

}  // namespace harpe::lab
