#pragma once
/// \file
/// Whether a job goes on, by what is heard of it.

#include <optional>

#include "harpe/base/units.h"

namespace harpe::training {

enum class Activity : unsigned char { kActive, kIdle, kEnded };
const char* name_of(Activity activity);

/// When jobs change their activity and go.
struct JobLifetimes {
  Seconds idle_after{15.0 * 60};      ///< without a word of any rank; out of memory from then on
  Seconds end_after{24.0 * 3600};     ///< the same: it has ended, though no rank said so
  Seconds keep_ended{30.0 * 86'400};  ///< until it is removed; 0: for ever
};
/// \param heard  when a rank was last heard of; \param ended  when all ended in order
Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes);

}  // namespace harpe::training
