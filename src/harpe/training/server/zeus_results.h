#pragma once
/// \file
/// What ranks of Zeus's clients measured, as a job takes it.

#include <cstddef>

#include "harpe/base/result.h"
#include "harpe/training/server/zeus_requests.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe {

/// Whether its numbers are times and energies, its instructions known, and its lists of one length.
Status check_zeus_result(const ZeusResult& result);

/// The `i`-th iteration of a result that has been checked, without its place, session, number and
/// version. Energies are NaN where there is not one for each time.
IterationReport report_of_zeus_result(const ZeusResult& result, std::size_t i);

}  // namespace harpe
