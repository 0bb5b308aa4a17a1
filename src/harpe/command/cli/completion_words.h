#pragma once
/// \file
/// Words that completion scripts offer and only a running system knows.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

inline constexpr const char* kJobs = "jobs";  ///< ids, of the server that HARPE_SERVER names
inline constexpr const char* kRecurringJobs = "recurring-jobs";
inline constexpr const char* kGpus = "gpus";  ///< UUIDs, of this machine

/// The names of these lists.
std::vector<std::string> completion_word_lists();

/// The words of one of them, by its name. Fails where the server or the devices cannot be asked.
Result<std::vector<std::string>> completion_words(std::string_view list);

}  // namespace harpe
