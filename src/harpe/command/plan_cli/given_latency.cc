#include "harpe/command/plan_cli/given_latency.h"

#include <system_error>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/input/input_file.h"
#include "harpe/plan/profile/latency_table.h"

namespace harpe::command {
namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code no_file;
  return std::filesystem::is_regular_file(path, no_file);
}

}  // namespace

Result<LatencyByClock> given_latency_table(const std::filesystem::path& path) {
  const std::string text = HARPE_TRY(read_input_file(path));
  return plan::parse_latency_table(text, path.string());
}

std::string range_text(const LatencyByClock& latency) {
  constexpr int kMicroseconds = 3;  // decimals of milliseconds
  const Seconds least = latency.shortest(), most = latency.longest();
  if (most >= Seconds{1}) return text_of(latency);
  const std::string text = shortest(1e3 * most.value, kMicroseconds) + " ms";
  return least == most ? text : shortest(1e3 * least.value, kMicroseconds) + " to " + text;
}

bool is_latency_table(const std::string& value) {
  if (parse_seconds(value).ok()) return false;
  return value.find('/') != std::string::npos || without_gz(value).extension() == ".csv" ||
         is_file(value);
}

Result<GivenLatency> given_latency(const std::string& value) {
  if (is_latency_table(value))
    return GivenLatency{.by_clock = HARPE_TRY(given_latency_table(value)), .table = value};
  return GivenLatency{.by_clock = HARPE_TRY(parse_seconds(value))};
}

Result<GivenLatency> found_latency(const std::filesystem::path& profile) {
  const std::filesystem::path table = plain_or_gz(plan::latency_table_of(without_gz(profile)));
  if (profile.empty() || !is_file(table)) return GivenLatency{};
  Result<LatencyByClock> latency = given_latency_table(table);
  if (latency.ok())
    return GivenLatency{.by_clock = *std::move(latency), .table = table, .is_found = true};
  Error error = std::move(latency).error();
  error.diagnostics.push_back({.file = table.string(),
                               .message =
                                   "is used because it is beside the profile: correct it, or give "
                                   "--switch-latency 0 to plan without it"});
  return error;
}

std::string lateness_text(const GivenLatency& given) {
  const std::string range = range_text(given.by_clock);
  if (!given.table.empty())
    return "late as in " + given.table.filename().string() + " (" + range + ")";
  return given.by_clock.longest() > Seconds{0} ? range + " late" : "immediate";
}

std::string latency_sentence(const GivenLatency& given) {
  if (given.table.empty() && given.by_clock.longest() <= Seconds{0}) return "";
  return "Clock changes are " + lateness_text(given) +
         (given.is_found ? "; --switch-latency 0 assumes free changes" : "");
}

}  // namespace harpe::command
