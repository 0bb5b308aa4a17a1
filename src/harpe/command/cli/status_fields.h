#pragma once
/// \file
/// Accessors of the server's documents for commands. A member that is missing or has another type
/// counts as missing. Include only in `.cc` files: the JSON library is large.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {

/// Returns a discarded value if the text is not JSON.
Json parsed(std::string_view text);
/// Returns a member of an object; null if there is none.
const Json& member(const Json& object, const char* key);
std::optional<double> number_in(const Json& object, const char* key);
/// Returns a text without characters that would move the cursor of a terminal: names come from the
/// client that registered the job.
std::string text_in(const Json& object, const char* key);
/// Returns, for example, "12"; "-" if it is missing.
std::string whole_in(const Json& object, const char* key);
/// Returns 0 if it is missing.
int count_of(const Json& object, const char* key);
/// Returns, for example, "1.20 s"; "-" if it is missing.
std::string seconds_in(const Json& object, const char* key);
/// Returns the local time of seconds since 1970, "2026-11-22 14:05"; empty if it is missing.
std::string time_text(const Json& object, const char* key);
/// Returns an entry of a log as a line: its time, "warning: " or "now ", its text.
/// \param time_format  a format of strftime
std::string event_text(const Json& event, const char* time_format);

/// Returns an estimated time, rounded: "40 s", "3 min", "2.5 h".
std::string rough_time(Seconds time);
/// Returns, for example, "812 J", "41.2 kJ", "0.52 kWh".
std::string short_energy(double joules);
/// A unit that suits an energy.
struct EnergyUnit {
  double joules;
  int decimals;
  const char* name;
};
EnergyUnit unit_of(double joules);

/// True if savings exceed their error and iterations take the predicted time.
bool is_claimed(const Json& status);
/// Returns, for example, "41.2 ± 1.1 kJ"; "-" if the status has no savings.
std::string saved_amount(const Json& status);
/// Returns, for example, "41.2 ± 1.1 kJ", with reasons against it; "-" if the status has no
/// savings.
std::string saved_text(const Json& status);
/// Returns, for example, "41.2 ± 1.1 kJ against all-max (3.2 %)", with the share only if the
/// savings are claimed.
std::string saving_text(const Json& status);

/// Saving in percent of the energy of all-max since the job was registered.
struct SavedShare {
  double percent = 0, error = 0;  ///< error: half-width of the 95 % interval
};
/// Returns nullopt if the savings are not claimed, or no energy was used.
std::optional<SavedShare> saved_share(const Json& status);

}  // namespace harpe::command
