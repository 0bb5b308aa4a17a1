#pragma once
/// \file
/// Stage numbers in sentences.

#include <string>
#include <vector>

namespace harpe::plan {

/// Returns "stage 3", "stages 0, 2", "stages 0 to 6, 8".
/// \param stages  in ascending order, without duplicates
std::string stage_list(const std::vector<int>& stages);

}  // namespace harpe::plan
