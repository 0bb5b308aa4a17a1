#include "harpe/command/plan_cli/cluster_options.h"

#include <unistd.h>

#include <cmath>

#include "harpe/base/decimal_comma.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/input/input_file.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::command {

bool ClusterOptions::given() const {
  return pipelines || gpus_per_node || host_power || pue || time || price || carbon;
}

Result<Seconds> parse_hours(std::string_view text) {
  constexpr double kMost = 10 * 365.25 * 24;
  const auto number = parse_number(text);
  const auto with_unit = parse_seconds(text);
  if (!number && !with_unit.ok()) {
    return Error::invalid("expected hours such as 720 or 30d, found " + in_quotes(text) +
                          decimal_comma_hint(text));
  }
  const Seconds time = number ? Seconds{*number * 3600} : *with_unit;
  if (!(time > Seconds{0}) || time > Seconds{kMost * 3600}) {
    return Error::invalid("expected more than 0 hours and at most 10 years, found " +
                          in_quotes(text));
  }
  return time;
}

Result<carbon::ClusterTerms> cluster_terms(const ClusterOptions& options) {
  carbon::ClusterTerms terms;
  terms.pipelines = options.pipelines.value_or(terms.pipelines);
  terms.gpus_per_node = options.gpus_per_node.value_or(terms.gpus_per_node);
  terms.host_power = options.host_power.value_or(terms.host_power);
  terms.pue = options.pue.value_or(terms.pue);
  terms.time = options.time.value_or(terms.time);
  terms.price = options.price;
  if (!options.carbon) return terms;
  carbon::SourceEnvironment environment{.clock = system_clock()};
  environment.read = [](const std::filesystem::path& path) { return read_input_file(path); };
  // Processes that fail together must not retry together.
  environment.seed = mixed(static_cast<std::uint64_t>(::getpid()),
                           static_cast<std::uint64_t>(system_clock().now().ns), 0);
  const carbon::WholeSeconds past(std::llround(terms.time.value));
  auto intensity = carbon::mean_intensity(*options.carbon, environment, past);
  if (!intensity.ok()) {
    Error error = std::move(intensity).error();
    for (Diagnostic& each : error.diagnostics) {
      if (each.file.empty()) each.message = "--carbon: " + each.message;
    }
    return error;
  }
  terms.intensity = *std::move(intensity);
  return terms;
}

}  // namespace harpe::command
