#pragma once
/// \file
/// A source of carbon intensity: a provider, a file, or one number. Each provider implements it;
/// users open a `CarbonSource` (open_source.h), which adds the cache and the fallbacks.

#include <string>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// Identity of a source. Values of two sources, or of two kinds, never mix.
struct SourceIdentity {
  std::string provider = {};  ///< such as "electricity-maps", as in a specification
  std::string zone = {};      ///< such as "DE"; empty if none
  IntensityKind kind = IntensityKind::kUnstated;
  WholeSeconds step{3600};
  std::string options = {};  ///< options that change values: "factors=..."; empty if the defaults

  /// Returns a name such as "electricity-maps:DE".
  std::string name() const { return zone.empty() ? provider : provider + ":" + zone; }
};

/// A provider, file or number. Used by one thread. Every response has the identity's kind, zone and
/// step, and `fetched_at`. Functions fail with the errors of SourceLink (kUnavailable,
/// kNoPermission, kNotFound), with kInvalidInput for an unreadable response, and with kNotSupported
/// for data that the source does not have.
class IntensitySource {
 public:
  virtual ~IntensitySource() = default;
  virtual const SourceIdentity& identity() const = 0;
  /// Returns the newest values, at least one.
  virtual Result<ProviderIntensity> latest() = 0;
  /// Returns the values in [from, to), at least one.
  virtual Result<ProviderIntensity> history(UtcTime from, UtcTime to) = 0;
  /// Returns the newest forecast, as issued.
  virtual Result<ProviderIntensity> forecast(WholeSeconds horizon) = 0;
};

}  // namespace harpe::carbon
