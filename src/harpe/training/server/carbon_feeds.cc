#include "harpe/training/server/carbon_feeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::training {
namespace {

constexpr std::int64_t kMostForecastSteps = 2000;
constexpr carbon::WholeSeconds kLongestForecast = carbon::whole_hours(96);
/// Maximum delay of a read after an interval begins: providers need some time, too.
constexpr Seconds kLongestDelay{5};
constexpr double kDelayShare = 0.05;
/// Period of checks of the wall clock, because a machine may sleep or its clock may be set.
constexpr Seconds kLook{2};
/// Delay in seconds of the next read after a failure; an interval if that is shorter.
constexpr double kAfterFailure = 60;
constexpr Seconds kPatienceAtEnd{1};

std::string list_of(const std::vector<std::pair<std::string, std::string>>& choices) {
  std::string list;
  for (const auto& [name, zone] : choices) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

/// A source with its thread, which may outlast the server while a provider hangs.
struct CarbonFeeds::Feed : public Clock, public std::enable_shared_from_this<Feed> {
  // Used by the thread only.
  carbon::SourceSpecification specification;
  carbon::UtcNow utc_now;
  carbon::EnvironmentVariable variable;
  std::function<Seconds()> wall;
  std::function<Result<std::string>(const std::filesystem::path&)> read_text;
  std::unique_ptr<carbon::CarbonSource> source;
  FileStamp seen;                  ///< of the file version in `source`
  carbon::UtcTime file_read_at{};  ///< time of the last check that found this version
  std::string file_trouble;        ///< why a newer version cannot be used; empty if none
  std::uint64_t seed = 0;

  Mutex mutex;
  CondVar changed;
  bool stopping HARPE_GUARDED_BY(mutex) = false;
  bool ended HARPE_GUARDED_BY(mutex) = true;  ///< true also before the thread begins
  std::optional<Status> opened HARPE_GUARDED_BY(mutex);
  std::optional<Instant> reads_since HARPE_GUARDED_BY(mutex);
  std::function<void(IntensityReading)> post HARPE_GUARDED_BY(mutex);

  // The clock of the source: its waits end when the server stops.
  Instant now() const override { return system_clock().now(); }
  void sleep_until(Instant until) override {
    const Seconds wait = until - now();
    if (wait > Seconds{0}) rest(wait);
  }

  /// Waits for a time or until the feed stops. Returns true if it stops.
  bool rest(Seconds time) {
    const MutexLock lock(mutex);
    const auto until = std::chrono::duration<double>(time.value);
    return changed.wait_for(mutex, until, [this]() HARPE_REQUIRES(mutex) { return stopping; });
  }

  bool is_file() const {
    return specification.provider == carbon::SourceSpecification::Provider::kFile;
  }

  Status open() {
    carbon::SourceEnvironment environment{
        .clock = *this, .now = utc_now, .variable = variable, .seed = seed};
    environment.file_read_at = [this] { return file_read_at; };
    if (read_text) environment.read = read_text;
    const carbon::UtcTime at = utc_now();
    // Taken before the file is read: a change during the read causes another read.
    const FileStamp stamp = is_file() ? file_stamp(specification.path) : FileStamp();
    source = HARPE_TRY(carbon::open_source(specification, std::move(environment)));
    seen = stamp;
    file_read_at = at;
    return ok_status();
  }

  /// Opens the source on a separate thread: a file system that hangs blocks only that thread.
  Status open_within(Seconds longest, const std::string& text) {
    std::thread([self = shared_from_this()] {
      Status status = self->open();
      const MutexLock lock(self->mutex);
      self->opened = std::move(status);
      self->changed.notify_all();
    }).detach();
    const MutexLock lock(mutex);
    const auto until = std::chrono::duration<double>(longest.value);
    if (!changed.wait_for(mutex, until,
                          [this]() HARPE_REQUIRES(mutex) { return opened.has_value(); })) {
      return Error::of(ErrorCode::kUnavailable,
                       text + " could not be opened within " + shortest(longest.value) +
                           " s: does the file system of its files respond?");
    }
    return *opened;
  }

  /// Reads the file again if it has changed. If the new content cannot be used, the old values stay
  /// and keep their age.
  void look_at_file() {
    if (!is_file()) return;
    const carbon::UtcTime at = utc_now();
    if (file_trouble.empty() && file_stamp(specification.path) == seen) {
      file_read_at = at;
      return;
    }
    const carbon::SourceIdentity before = source->identity();
    auto old = std::move(source);
    const FileStamp old_seen = seen;
    const carbon::UtcTime old_read_at = file_read_at;
    const Status opened_again = open();
    file_trouble.clear();
    if (opened_again.ok() && source->identity().kind == before.kind &&
        source->identity().step == before.step) {
      return;
    }
    file_trouble =
        "the file was changed and cannot be used: " +
        (opened_again.ok() ? "its kind or interval has changed" : opened_again.error().text());
    source = std::move(old);
    seen = old_seen;
    file_read_at = old_read_at;
  }

  IntensityReading read() {
    look_at_file();
    std::string trouble = file_trouble;
    IntensityReading reading{.identity = source->identity()};
    const auto note = [&](const Error& error) {
      if (trouble.empty()) trouble = error.text();
    };
    auto current = source->current();
    current.ok() ? void(reading.current = *std::move(current)) : note(current.error());
    const carbon::WholeSeconds step = reading.identity.step;
    auto forecast = source->forecast(std::min(kLongestForecast, kMostForecastSteps * step));
    forecast.ok() ? void(reading.forecast = *std::move(forecast)) : note(forecast.error());
    if (reading.forecast) reading.record = source->record(*reading.forecast);
    reading.trouble = std::move(trouble);
    return reading;
  }

  /// Returns the time of the next read, since 1970.
  Seconds next_after(Seconds now_is, bool failed) const {
    const double step = static_cast<double>(source->identity().step.count());
    const double delay = std::min(kLongestDelay.value, step * kDelayShare);
    const double boundary = (std::floor((now_is.value - delay) / step) + 1) * step + delay;
    if (!failed) return Seconds{boundary};
    return Seconds{std::min(boundary, now_is.value + kAfterFailure)};
  }

  void serve() {
    for (;;) {
      {
        const MutexLock lock(mutex);
        reads_since = now();
      }
      IntensityReading reading = read();
      const bool failed = !reading.current || !reading.forecast || !file_trouble.empty();
      {
        const MutexLock lock(mutex);
        reads_since.reset();
        if (stopping) break;
        post(std::move(reading));
      }
      const Seconds asked = wall();
      const Seconds due = next_after(asked, failed);
      for (Seconds is = asked; is < due && is >= asked - kLook; is = wall()) {
        if (rest(std::min(kLook, due - is))) break;
      }
      const MutexLock lock(mutex);
      if (stopping) break;
    }
    const MutexLock lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

CarbonFeeds::CarbonFeeds(Loop& loop, std::function<void(const std::string&)> log)
    : log_(std::move(log)), work_(loop) {}

Result<std::unique_ptr<CarbonFeeds>> CarbonFeeds::open(
    Loop& loop, const CarbonFeedOptions& options, std::function<void(const std::string&)> log) {
  std::unique_ptr<CarbonFeeds> feeds(new CarbonFeeds(loop, std::move(log)));
  feeds->wall_ = options.wall;
  feeds->longest_read_ = options.longest_read;
  for (const std::string& text : options.sources) {
    const auto feed = std::make_shared<Feed>();
    feed->specification = HARPE_TRY(carbon::parse_source(text));
    feed->utc_now = options.now;
    feed->variable = options.variable;
    feed->wall = options.wall;
    feed->read_text = options.read;
    feed->seed = std::hash<std::string>{}(text);
    HARPE_TRY(feed->open_within(options.longest_start, text));
    const carbon::SourceIdentity identity = feed->source->identity();
    std::string name = identity.name();
    for (int count = 2; feeds->find(name) != nullptr; ++count) {
      name = identity.name() + "#" + std::to_string(count);
    }
    feeds->offered_.push_back(
        {.name = name, .identity = identity, .method = feed->source->method()});
    feeds->choices_.emplace_back(name, identity.zone);
    feeds->feeds_.push_back(feed);
  }
  feeds->troubles_.resize(feeds->feeds_.size());
  return feeds;
}

CarbonFeeds::~CarbonFeeds() {
  for (const auto& feed : feeds_) {
    const MutexLock lock(feed->mutex);
    feed->stopping = true;
    feed->post = nullptr;
    feed->changed.notify_all();
  }
  // A feed that is waiting for a provider ends by itself, and owns all that it uses.
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatienceAtEnd.value);
  for (const auto& feed : feeds_) {
    Feed& one = *feed;
    const MutexLock lock(one.mutex);
    one.changed.wait_until(one.mutex, until,
                           [&one]() HARPE_REQUIRES(one.mutex) { return one.ended; });
  }
}

void CarbonFeeds::start(std::function<void(const std::string&)> changed) {
  changed_ = std::move(changed);
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    const std::shared_ptr<Feed> feed = feeds_[i];
    {
      const MutexLock lock(feed->mutex);
      feed->ended = false;
      feed->post = [this, i](IntensityReading reading) {
        work_.post([this, i, read = std::move(reading)]() mutable { take(i, std::move(read)); });
      };
    }
    std::thread([feed] { feed->serve(); }).detach();
  }
}

void CarbonFeeds::log_trouble(std::size_t at, const std::string& trouble) {
  if (trouble == troubles_[at]) return;
  troubles_[at] = trouble;
  log_("carbon intensity of " + offered_[at].name + ": " +
       (trouble.empty() ? "is available again" : trouble));
}

void CarbonFeeds::take(std::size_t at, IntensityReading reading) {
  OfferedSource& offered = offered_[at];
  log_trouble(at, reading.trouble);
  const auto gave = [&offered](carbon::UtcTime when) {
    offered.read_at = std::max(offered.read_at, Seconds{static_cast<double>(when.since_1970)});
  };
  offered.asked_at = wall_();
  offered.hangs.clear();
  if (reading.current) {
    // A constant given by the user is always up to date.
    gave(reading.current->fetched_at.value_or(
        carbon::UtcTime{static_cast<std::int64_t>(offered.asked_at.value)}));
  }
  if (reading.forecast) gave(reading.forecast->fetched_at);
  offered.reading = std::make_shared<const IntensityReading>(std::move(reading));
  changed_(offered.name);
}

void CarbonFeeds::tick() {
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    OfferedSource& offered = offered_[i];
    if (!offered.hangs.empty()) continue;
    Feed& feed = *feeds_[i];
    std::optional<Instant> since;
    {
      const MutexLock lock(feed.mutex);
      since = feed.reads_since;
    }
    if (!since || feed.now() - *since < longest_read_) continue;
    offered.hangs = "it was queried over " + shortest(longest_read_.value) +
                    " s ago, and has not responded since";
    log_trouble(i, offered.hangs);
  }
}

const OfferedSource* CarbonFeeds::find(const std::string& name) const {
  const auto found = std::ranges::find(offered_, name, &OfferedSource::name);
  return found == offered_.end() ? nullptr : &*found;
}

Result<std::string> CarbonFeeds::choose(const CarbonTerms& terms) const {
  if (choices_.empty()) {
    return Error::invalid(
        "this server has no source of carbon intensity: its operator offers some with harpe serve "
        "--carbon");
  }
  std::vector<std::string> fitting;
  for (const auto& [name, zone] : choices_) {
    const bool is_source = terms.source.empty() || terms.source == name;
    if (is_source && (terms.zone.empty() || terms.zone == zone)) fitting.push_back(name);
  }
  if (fitting.size() == 1) return fitting.front();
  std::string wanted = terms.source.empty() ? "" : " source " + in_quotes(terms.source);
  if (!terms.zone.empty()) wanted += " zone " + in_quotes(terms.zone);
  if (fitting.empty()) {
    return Error::invalid("there is no" + wanted + " here; this server offers " +
                          list_of(choices_));
  }
  return Error::invalid("name the source: this server offers " + list_of(choices_));
}

}  // namespace harpe::training
