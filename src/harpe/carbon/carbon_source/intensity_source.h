#pragma once
/// \file
/// A source of carbon intensity: a provider, a file, or one number. Each provider implements it;
/// users open a `CarbonSource` (open_source.h), which adds the cache and the fallbacks.

#include <string>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// What one source tells. Values of two sources, or of two kinds, never mix.
struct SourceIdentity {
  std::string provider = {};  ///< "electricity-maps", as in a specification
  std::string zone = {};      ///< "DE"; empty: none
  IntensityKind kind = IntensityKind::kUnstated;
  WholeSeconds step{3600};

  /// "electricity-maps:DE".
  std::string name() const { return zone.empty() ? provider : provider + ":" + zone; }
};

/// Used by one thread. Every answer has the identity's kind, zone and step, and `fetched_at`;
/// errors are those of SourceLink (kUnavailable, kNoPermission, kNotFound), or kInvalidInput for an
/// answer that cannot be read; kNotSupported for what a source does not have.
class IntensitySource {
 public:
  virtual ~IntensitySource() = default;
  virtual const SourceIdentity& identity() const = 0;
  /// The newest values there are, at least one.
  virtual Result<ProviderIntensity> latest() = 0;
  /// What was, in [from, to); at least one value of it.
  virtual Result<ProviderIntensity> history(UtcTime from, UtcTime to) = 0;
  /// The newest forecast, as issued.
  virtual Result<ProviderIntensity> forecast(WholeSeconds horizon) = 0;
};

}  // namespace harpe::carbon
