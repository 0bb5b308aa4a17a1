#pragma once
/// \file
/// What happens to an emulated cluster, from the options.

#include <string>
#include <vector>

#include "harpe/command/command/console.h"
#include "harpe/lab/emulation/cluster_emulation.h"

namespace harpe {

struct EmulateArguments;

/// Reads the terms, their files among them.
Result<EmulationTerms> read_terms(const EmulateArguments& arguments);

/// Warns of shares so small that a percent sign was most likely forgotten.
void warn_of_small_shares(const EmulateArguments& arguments, Console& console);

/// Returns what happens to the cluster, one sentence each.
std::vector<std::string> events_of(const EmulateArguments& arguments, const EmulationTerms& terms);

}  // namespace harpe
