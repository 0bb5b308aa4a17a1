#pragma once
/// \file
/// Opening a source of carbon intensity: combines the provider, its link, the cache and the ladder.
///
///   harpe::carbon::SourceEnvironment environment{.clock = harpe::system_clock()};
///   const auto carbon = harpe::carbon::open_source("electricity-maps:DE?mean=381", environment);
///   if (carbon.ok()) use((*carbon)->current());

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/file.h"
#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/api_token.h"
#include "harpe/carbon/carbon_source/entsoe_prices.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"
#include "harpe/carbon/carbon_source/source_specification.h"

namespace harpe::carbon {

/// The environment of a source. The variable HARPE_CARBON_CA_FILE names certificates that are
/// trusted in place of the system's.
struct SourceEnvironment {
  Clock& clock;  ///< for waits
  UtcNow now = utc_clock();
  EnvironmentVariable variable = process_environment();
  std::filesystem::path cache = carbon_cache_directory(variable);  ///< empty for none
  std::uint64_t seed = 0;  ///< of the waits between attempts; differs between machines
  Seconds timeout{10};
  bool offline = false;  ///< use only the cache and files; no token is needed
  /// Returns the time at which the file of a source was last known to be unchanged, which is the
  /// fetch time of its values. If empty, that is the time at which the source was opened.
  UtcNow file_read_at = {};
  /// Reads the file of a source. May block while its file system hangs.
  std::function<Result<std::string>(const std::filesystem::path&)> read =
      [](const std::filesystem::path& path) { return read_regular_file(path); };
};

/// An opened source. Used by one thread.
class CarbonSource {
 public:
  virtual ~CarbonSource() = default;
  virtual SourceIdentity identity() const = 0;
  virtual Result<LabelledIntensity> current() = 0;
  virtual Result<LabelledForecast> forecast(WholeSeconds horizon) = 0;
  virtual Result<LabelledHistory> history(UtcTime from, UtcTime to) = 0;
  /// See IntensityChain::record.
  virtual ForecastRecord record(const LabelledForecast& /*of*/) { return {}; }
  /// Returns text for reports: the emission factors of a source that has its own; else empty.
  virtual std::string method() const = 0;
};

/// Opens a source without sending a request. Fails if a token or a file is missing (see
/// find_api_token).
Result<std::unique_ptr<CarbonSource>> open_source(const SourceSpecification& source,
                                                  SourceEnvironment environment);
Result<std::unique_ptr<CarbonSource>> open_source(std::string_view text,
                                                  SourceEnvironment environment);

/// Fetches the published day-ahead prices of `entsoe:EIC` in [from, to), in intervals of the
/// source's step; from the afternoon on, they extend to the end of tomorrow. Fails with
/// kNotSupported for sources without prices and if offline; otherwise as fetch_entsoe_prices.
Result<DayAheadPrices> day_ahead_prices(const SourceSpecification& source,
                                        const SourceEnvironment& environment, UtcTime from,
                                        UtcTime to);

}  // namespace harpe::carbon
