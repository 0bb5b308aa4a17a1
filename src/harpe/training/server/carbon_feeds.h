#pragma once
/// \file
/// The sources of carbon intensity that this server offers. Each source has a thread that requests
/// it once an interval, so a provider that hangs delays neither other sources nor the server.
///
/// Shared by all jobs. The newest reading of each source, or its error, is available on the loop's
/// thread; nothing on that thread waits for a provider.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/training/carbon_control/intensity_outlook.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::training {

using ReadingPtr = std::shared_ptr<const IntensityReading>;

/// A source that clients can choose by its name, which contains no path.
struct OfferedSource {
  std::string name;
  carbon::SourceIdentity identity = {};
  std::string method = {};  ///< see CarbonSource::method
  ReadingPtr reading = {};  ///< the newest; null before the first response
  Seconds asked_at{};       ///< when `reading` arrived, since 1970
  Seconds read_at{};        ///< newest fetch time of its values, since 1970; 0 for never
  std::string hangs = {};   ///< why a response is overdue, for display; empty if none is
};

/// The environment of the feeds.
struct CarbonFeedOptions {
  std::vector<std::string> sources = {};  ///< in the format of carbon_source/source_specification.h
  carbon::UtcNow now = carbon::utc_clock();
  carbon::EnvironmentVariable variable = carbon::process_environment();
  /// Returns seconds since 1970, with fractions; callable from any thread.
  std::function<Seconds()> wall = {};
  /// See `SourceEnvironment::read`, whose default is used if this is empty.
  std::function<Result<std::string>(const std::filesystem::path&)> read = {};
  Seconds longest_start{10};  ///< limit on opening one source, whose file system may hang
  Seconds longest_read{60};   ///< time after which a source counts as hanging
};

/// The feeds of all offered sources. Used on the loop's thread.
class CarbonFeeds {
 public:
  /// Opens the sources without sending a request. Fails if a text is not a source, if a source
  /// lacks its token or file, or if opening one takes longer than `longest_start`.
  /// \param log  called on the loop's thread
  static Result<std::unique_ptr<CarbonFeeds>> open(Loop& loop, const CarbonFeedOptions& options,
                                                   std::function<void(const std::string&)> log);
  /// Does not wait for a provider that hangs.
  ~CarbonFeeds();
  CarbonFeeds(const CarbonFeeds&) = delete;
  CarbonFeeds& operator=(const CarbonFeeds&) = delete;

  /// Starts the requests. \param changed  called with the name of each source that has been read
  void start(std::function<void(const std::string& name)> changed);
  /// Reports sources that hang. Call it once a second.
  void tick();

  const std::vector<OfferedSource>& offered() const { return offered_; }
  const OfferedSource* find(const std::string& name) const;
  /// Returns the name of the only source that fits the terms. `kInvalidInput` lists the offered
  /// sources. Callable from any thread once `open` has returned.
  Result<std::string> choose(const CarbonTerms& terms) const;

 private:
  struct Feed;
  CarbonFeeds(Loop& loop, std::function<void(const std::string&)> log);
  void take(std::size_t at, IntensityReading reading);
  void log_trouble(std::size_t at, const std::string& trouble);

  std::function<void(const std::string&)> log_;
  std::function<Seconds()> wall_;
  Seconds longest_read_{};
  std::function<void(const std::string&)> changed_;
  std::vector<OfferedSource> offered_;
  /// Names and zones; constant.
  std::vector<std::pair<std::string, std::string>> choices_;
  std::vector<std::string> troubles_;  ///< last logged, for each source
  std::vector<std::shared_ptr<Feed>> feeds_;
  LoopWork work_;
};

}  // namespace harpe::training
