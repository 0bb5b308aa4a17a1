#pragma once
/// \file
/// The sources of carbon intensity that this server's operator offers, each asked by a thread of
/// its own once an interval: one that hangs delays no other, and nothing else of the server.
///
/// Shared by all jobs. What a source said last, or why it said nothing, is known on the loop's
/// thread; nothing there waits for a provider.

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

/// What a source offers. The name is that by which clients choose it; it holds no path.
struct OfferedSource {
  std::string name;
  carbon::SourceIdentity identity = {};
  std::string method = {};  ///< see CarbonSource::method
  ReadingPtr reading = {};  ///< the newest; null: it has not answered yet
  Seconds asked_at{};       ///< when that was, since 1970
  Seconds read_at{};        ///< when it last gave what it says now, since 1970; 0: never
  std::string hangs = {};   ///< why no newer answer comes, for people; empty: none is due
};

/// What a feed needs of the world.
struct CarbonFeedOptions {
  std::vector<std::string> sources = {};  ///< as carbon_source/source_specification.h
  carbon::UtcNow now = carbon::utc_clock();
  carbon::EnvironmentVariable variable = carbon::process_environment();
  /// Seconds since 1970, with fractions; from any thread.
  std::function<Seconds()> wall = {};
  /// See `SourceEnvironment::read`. If empty, the default of that is used.
  std::function<Result<std::string>(const std::filesystem::path&)> read = {};
  Seconds longest_start{10};  ///< that opening one source may take: its file system may hang
  Seconds longest_read{60};   ///< after which a source counts as one that hangs
};

/// On the loop's thread.
class CarbonFeeds {
 public:
  /// Opens the sources, without a request to any. Fails if a text names no source, if a source
  /// lacks its token or file, or if opening one takes longer than `longest_start`.
  /// \param log  from the loop's thread
  static Result<std::unique_ptr<CarbonFeeds>> open(Loop& loop, const CarbonFeedOptions& options,
                                                   std::function<void(const std::string&)> log);
  /// Does not wait for a provider that hangs.
  ~CarbonFeeds();
  CarbonFeeds(const CarbonFeeds&) = delete;
  CarbonFeeds& operator=(const CarbonFeeds&) = delete;

  /// Begins to ask. \param changed  called with the name of a source that has just been read
  void start(std::function<void(const std::string& name)> changed);
  /// Reports sources that hang. Must be called once a second.
  void tick();

  const std::vector<OfferedSource>& offered() const { return offered_; }
  const OfferedSource* find(const std::string& name) const;
  /// The one that the terms name. From any thread once `open` has returned. `kInvalidInput` names
  /// those that are offered.
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
  /// Names and zones, which never change.
  std::vector<std::pair<std::string, std::string>> choices_;
  std::vector<std::string> troubles_;  ///< last logged, of each
  std::vector<std::shared_ptr<Feed>> feeds_;
  LoopWork work_;
};

}  // namespace harpe::training
