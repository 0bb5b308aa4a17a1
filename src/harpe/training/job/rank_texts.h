#pragma once
/// \file
/// How a job's ranks are stored. Who holds which place stands in parts of some hundred ranks, so
/// that a rank that registers does not write all of them anew; what all ranks share, in the job's
/// state. Only for `.cc` files.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harpe/base/json_fields.h"
#include "harpe/base/result.h"
#include "harpe/training/job/rank_book.h"

namespace harpe {

/// The name of a part.
std::string holders_part(std::size_t part);
/// In the order of their ranks: [session, which of the names its GPU has, 1 if it has ended, power
/// limit, 1 if it asks for clocks ahead], what is 0 left out at the end, null where no rank is.
std::string holders_text(const RankBook& ranks, std::size_t part);
Status read_holders(const std::string& text, std::size_t part, RankHolders& holders);

/// The run, the clocks of stages, and whether any GPU is simulated.
nlohmann::ordered_json ranks_json(const JobShape& shape, const RankBook& ranks);
/// \param holders  as `read_holders` found them
/// \param heard  when any of them was heard of last
void read_ranks(const JsonValue& object, Diagnostics& diagnostics, const JobShape& shape,
                RankHolders holders, Seconds heard, RankBook& ranks);

}  // namespace harpe
