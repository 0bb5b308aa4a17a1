#pragma once
/// \file
/// Texts for the savings of a job against all-max. Pure functions of the server's status. Only for
/// `.cc` files: the JSON library is large.

#include <optional>
#include <string>

#include "harpe/command/command/json_output.h"

namespace harpe {

/// True if savings are more than their error, and iterations take the time that was predicted.
bool is_claimed(const Json& status);
/// "41.2 ± 1.1 kJ"; "-" if the status has no savings.
std::string saved_amount(const Json& status);
/// "41.2 ± 1.1 kJ", with what speaks against it; "-" if the status has no savings.
std::string saved_text(const Json& status);
/// "41.2 ± 1.1 kJ against all-max (3.2 %)"; the share only if the savings are claimed.
std::string saving_text(const Json& status);

/// Percent of what all-max would have used since the job was registered.
struct SavedShare {
  double percent = 0, error = 0;  ///< error: half-width of the 95 % interval
};
/// Returns nullopt if the savings are not claimed, or nothing was used.
std::optional<SavedShare> saved_share(const Json& status);

}  // namespace harpe
