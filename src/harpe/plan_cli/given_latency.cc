#include "harpe/plan_cli/given_latency.h"

#include <filesystem>
#include <system_error>

#include "harpe/command/quantity_text.h"
#include "harpe/profile/latency_table.h"

namespace harpe {

bool is_latency_table(const std::string& value) {
  if (parse_seconds(value).ok()) return false;
  std::error_code no_file;
  return value.find('/') != std::string::npos || value.ends_with(".csv") ||
         std::filesystem::is_regular_file(value, no_file);
}

Result<LatencyByClock> given_latency(const std::string& value) {
  if (is_latency_table(value)) return read_latency_table(value);
  const Seconds of_all = HARPE_TRY(parse_seconds(value));
  return LatencyByClock(of_all);
}

}  // namespace harpe
