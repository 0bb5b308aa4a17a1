#include "harpe/command/cli/status_fields.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/terminal_text.h"

namespace harpe::command {
namespace {

/// Returns true if iterations take the time that the plan predicts, or if one of both is unknown.
bool as_predicted(const Json& status) {
  constexpr double kSame = 0.02;
  const auto measured = number_in(status, "iteration_time_s");
  const auto predicted = number_in(status, "predicted_time_s");
  return !measured || !predicted || std::abs(*measured / *predicted - 1) <= kSame;
}

std::string local_time(double since_1970, const char* format) {
  const auto at = static_cast<std::time_t>(since_1970);
  std::tm local{};
  ::localtime_r(&at, &local);
  char time[32];
  return std::string(time, std::strftime(time, sizeof time, format, &local));
}

}  // namespace

Json parsed(std::string_view text) {
  return json_or_discarded(text);
}

const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::optional<double> number_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string text_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) return {};
  return printable(value.get<std::string>());
}

std::string whole_in(const Json& object, const char* key) {
  const auto value = number_in(object, key);
  return value ? fixed(*value, 0) : "-";
}

std::string seconds_in(const Json& object, const char* key) {
  const auto value = number_in(object, key);
  return value ? seconds_text(*value) : "-";
}

EnergyUnit unit_of(double joules) {
  constexpr double kKilowattHour = 3.6e6;
  if (std::abs(joules) >= kKilowattHour / 10) return {kKilowattHour, 2, "kWh"};
  return std::abs(joules) >= 1e4 ? EnergyUnit{1e3, 1, "kJ"} : EnergyUnit{1, 0, "J"};
}

std::string short_energy(double joules) {
  const EnergyUnit unit = unit_of(joules);
  return fixed(joules / unit.joules, unit.decimals) + " " + unit.name;
}

int count_of(const Json& object, const char* key) {
  return static_cast<int>(std::clamp(number_in(object, key).value_or(0), 0.0, 1e9));
}

std::string time_text(const Json& object, const char* key) {
  const auto since_1970 = number_in(object, key);
  return since_1970 ? local_time(*since_1970, "%F %H:%M") : std::string();
}

std::string event_text(const Json& event, const char* time_format) {
  const std::string kind = text_in(event, "kind");
  const char* begin = kind == "phase" ? "now " : kind == "warning" ? "warning: " : "";
  return local_time(number_in(event, "at").value_or(0), time_format) + begin +
         text_in(event, "text");
}

std::string rough_time(Seconds time) {
  constexpr double kMinute = 60, kHour = 3600;
  if (time.value < 1.5 * kMinute) return fixed(std::max(1.0, time.value), 0) + " s";
  if (time.value < 1.5 * kHour) return fixed(time.value / kMinute, 0) + " min";
  return fixed(time.value / kHour, 1) + " h";
}

bool is_claimed(const Json& status) {
  return number_in(status, "saved_j").value_or(0) >
             number_in(status, "saved_error_j").value_or(0) &&
         as_predicted(status);
}

std::string saved_amount(const Json& status) {
  const auto joules = number_in(status, "saved_j");
  if (!joules) return "-";
  const auto error = number_in(status, "saved_error_j");
  if (!error || (*joules == 0 && *error == 0)) return short_energy(*joules);
  const EnergyUnit unit = unit_of(std::max(std::abs(*joules), *error));
  return fixed(*joules / unit.joules, unit.decimals) + " ± " +
         fixed(*error / unit.joules, unit.decimals) + " " + unit.name;
}

std::string saved_text(const Json& status) {
  std::string text = saved_amount(status);
  const auto joules = number_in(status, "saved_j");
  const auto error = number_in(status, "saved_error_j");
  if (!joules || !error || (*joules == 0 && *error == 0)) return text;
  if (std::abs(*joules) <= *error) text += ", not distinguishable from zero";
  if (!as_predicted(status)) {
    const double ratio = number_in(status, "iteration_time_s").value_or(0) /
                         number_in(status, "predicted_time_s").value_or(1);
    text += " (iterations take " + fixed(100 * std::abs(ratio - 1), 0) + " % " +
            (ratio > 1 ? "more" : "less") + " time than predicted)";
  }
  return text;
}

std::optional<SavedShare> saved_share(const Json& status) {
  const auto joules = number_in(status, "saved_j");
  const double used = number_in(status, "energy_j").value_or(0);
  if (!joules || !is_claimed(status) || !(used + *joules > 0)) return std::nullopt;
  const double error = number_in(status, "saved_error_j").value_or(0);
  return SavedShare{100 * *joules / (used + *joules), 100 * error / (used + *joules)};
}

std::string saving_text(const Json& status) {
  const auto share = saved_share(status);
  return saved_text(status) + " against all-max" +
         (share ? " (" + fixed(share->percent, 1) + " %)" : "");
}

}  // namespace harpe::command
