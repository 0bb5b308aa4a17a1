#pragma once
/// \file
/// Members of the server's documents, as commands show them. What a document lacks, or has of
/// another type, is as if it were not there. Only for `.cc` files: the JSON library is large.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {

/// A discarded value where the text is no JSON.
Json parsed(std::string_view text);
/// A member of an object, null where there is none.
const Json& member(const Json& object, const char* key);
std::optional<double> number_in(const Json& object, const char* key);
/// Without what would move the cursor of a terminal: names come from the client that registered the
/// job.
std::string text_in(const Json& object, const char* key);
/// "12", or "-".
std::string whole_in(const Json& object, const char* key);
/// 0 where there is none.
int count_of(const Json& object, const char* key);
/// "1.20 s", or "-".
std::string seconds_in(const Json& object, const char* key);
/// Of seconds since 1970, "2026-11-22 14:05"; empty where there is none.
std::string time_text(const Json& object, const char* key);
/// Returns an entry of a log as a line: its time, "warning: " or "now ", its text.
/// \param time_format  a format of strftime
std::string event_text(const Json& event, const char* time_format);

/// Of what can only be estimated: "40 s", "3 min", "2.5 h".
std::string rough_time(Seconds time);
/// "812 J", "41.2 kJ", "0.52 kWh".
std::string short_energy(double joules);
/// The unit that fits an energy.
struct EnergyUnit {
  double joules;
  int decimals;
  const char* name;
};
EnergyUnit unit_of(double joules);

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

}  // namespace harpe::command
