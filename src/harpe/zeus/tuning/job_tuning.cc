#include "harpe/zeus/tuning/job_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/mutex.h"
#include "harpe/node/node_client/agent_client.h"
#include "harpe/zeus/power_limit/setting_model.h"
#include "harpe/zeus/tuning/job_agreement.h"

namespace harpe::zeus {
namespace {

constexpr Seconds kLease{60};
// A lost lease is noticed after at most this time. A renewal is one request over a local socket.
constexpr Seconds kRenewal{5};

class AgentSetter final : public KnobSetter {
 public:
  AgentSetter(node::AgentClient agent, node::Lease lease, Knob knob, Seconds lasts, Clock& clock)
      : agent_(std::move(agent)),
        lease_(std::move(lease)),
        knob_(std::move(knob)),
        lasts_(lasts),
        renewed_(clock.now()) {}
  ~AgentSetter() override { (void)restore().ok(); }
  AgentSetter(const AgentSetter&) = delete;
  AgentSetter& operator=(const AgentSetter&) = delete;

  const Knob& knob() const override { return knob_; }

  Status set(std::size_t setting) override {
    const MutexLock lock(mutex_);
    for (const int gpu : lease_.gpus) {
      const node::Applied applied = HARPE_TRY(agent_.apply(lease_.id, gpu, setting_of(setting)));
      if (applied.dry_run) {
        return Error::of(ErrorCode::kRefused, "the agent runs with --dry-run and sets nothing");
      }
    }
    return ok_status();
  }

  Status keep(Instant now) override {
    const MutexLock lock(mutex_);
    if (released_ || now - renewed_ < std::min(kRenewal, lasts_ / 3)) return ok_status();
    renewed_ = now;
    return agent_.renew(lease_.id, lasts_);
  }

  Status restore() override {
    const MutexLock lock(mutex_);
    if (std::exchange(released_, true)) return ok_status();
    return agent_.release(lease_.id);
  }

 private:
  node::Setting setting_of(std::size_t setting) const {
    const bool is_clock = knob_.kind() == KnobKind::kGraphicsClock;
    if (setting == 0) {
      return {.kind = is_clock ? node::Setting::Kind::kResetClocks
                               : node::Setting::Kind::kResetPowerLimit};
    }
    if (!is_clock) return {.kind = node::Setting::Kind::kPowerLimit, .limit = {knob_[setting]}};
    const Megahertz clock{static_cast<int>(knob_[setting])};
    return {.kind = node::Setting::Kind::kLockClocks, .clocks = {clock, clock}};
  }

  Mutex mutex_;
  node::AgentClient agent_ HARPE_GUARDED_BY(mutex_);
  const node::Lease lease_;
  const Knob knob_;
  const Seconds lasts_;
  Instant renewed_ HARPE_GUARDED_BY(mutex_);
  bool released_ HARPE_GUARDED_BY(mutex_) = false;
};

Result<std::vector<int>> positions(node::AgentClient& agent, std::span<const std::string> uuids) {
  const std::vector<GpuIdentity> known = HARPE_TRY(agent.gpus());
  std::vector<int> gpus;
  for (const std::string& uuid : uuids) {
    const auto found = std::ranges::find(known, uuid, &GpuIdentity::uuid);
    if (found == known.end()) {
      return Error::of(ErrorCode::kNotFound, "the agent does not know the GPU " + uuid);
    }
    gpus.push_back(found->index);
  }
  if (gpus.empty()) return Error::of(ErrorCode::kNotFound, "there is no GPU");
  return gpus;
}

/// Acquires a lease of the node's agent; sets nothing yet. The setter locks graphics clocks if the
/// policy allows them (a locked clock saves more than a power limit at the same speed), otherwise
/// it sets power limits. The lease ends with this process, however it ends, and the agent then
/// restores all settings. Fails if there is no agent, if it does not know one of the GPUs, if
/// another client holds them, or if neither clocks nor limits may be lowered on all of them.
/// \param uuids     the UUIDs of the job's GPUs
/// \param name      the name of the lease, for people
/// \param patience  the longest wait for a response of the agent
Result<std::unique_ptr<KnobSetter>> open_agent_setter(const std::filesystem::path& socket,
                                                      std::span<const std::string> uuids,
                                                      const std::string& name, Seconds patience,
                                                      Clock& clock) {
  node::AgentClient agent = HARPE_TRY(node::AgentClient::connect(socket, patience));
  const std::vector<int> gpus = HARPE_TRY(positions(agent, uuids));
  std::vector<FoundGpu> found;
  Seconds lasts = kLease;
  for (const int gpu : gpus) {
    found.push_back({.offer = HARPE_TRY(agent.offer(gpu)), .found = {}});
    // If the policy allows setting a GPU but not reading it, assume its factory settings.
    const Result<node::GpuReading> reading = agent.read(gpu);
    if (reading.ok()) found.back().found = *reading;
    const Seconds most = found.back().offer.max_lease;
    if (most.value > 0) lasts = std::min(lasts, most);
  }
  std::optional<Error> refused;
  for (const bool clocks : {true, false}) {
    Knob knob = clocks ? clock_knob(found) : limit_knob(found);
    if (!knob.can_choose()) continue;
    Result<node::Lease> lease =
        agent.take({.gpus = gpus,
                    .duration = lasts,
                    .name = name,
                    .controls = {clocks ? node::Control::kClocks : node::Control::kPowerLimit}});
    if (lease.ok()) {
      return std::unique_ptr<KnobSetter>(std::make_unique<AgentSetter>(
          std::move(agent), std::move(lease).take(), std::move(knob), lasts, clock));
    }
    // Two optimizers on one GPU would each measure the other's settings. Power limits beside
    // another optimizer's clocks, which the agent grants to the same user, would not avoid this.
    if (lease.error().code == ErrorCode::kConflict) return std::move(lease).error();
    if (!refused) refused = std::move(lease).error();
  }
  if (refused) return *std::move(refused);
  return Error::of(
      ErrorCode::kNoPermission,
      "the agent's policy allows you to lower neither the clocks nor the power limits of "
      "all these GPUs (clocks_mhz and power_limit_w in its file)");
}

// Drivers, libraries and data change; a month-old profile is a guess.
constexpr Seconds kOldestProfile{30.0 * 86400};

double now_on_the_wall() {
  return static_cast<double>(std::time(nullptr));
}

// A folder with more files than this is not a folder of profiles.
constexpr std::size_t kMostProfiles = 1000;

bool is_folder(const std::filesystem::path& path) {
  return !path.has_filename() || std::filesystem::is_directory(path);
}

std::filesystem::path file_of(const JobTuningOptions& options) {
  if (!is_folder(options.profile)) return options.profile;
  return options.profile / ("batch-" + std::to_string(options.batch_size) + ".json");
}

/// Returns the profile of a file, or the profiles of a folder. Files of a folder that cannot be
/// read are ignored.
Result<std::vector<LimitProfile>> read_profiles(const std::filesystem::path& path) {
  std::vector<LimitProfile> profiles;
  std::error_code none;
  if (path.empty() || !std::filesystem::exists(path, none)) return profiles;
  if (!is_folder(path)) {
    const std::string text = HARPE_TRY(read_file(path));
    profiles.push_back(HARPE_TRY(parse_limit_profile(text, path)));
    return profiles;
  }
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(path, none), end; !none && it != end;
       it.increment(none)) {
    if (it->path().extension() == ".json") files.push_back(it->path());
    if (files.size() > kMostProfiles) break;
  }
  std::ranges::sort(files);
  for (const auto& file : files) {
    const Result<std::string> text = read_file(file);
    Result<LimitProfile> profile = text.ok() ? parse_limit_profile(*text, file) : text.error();
    if (profile.ok()) profiles.push_back(std::move(profile).take());
  }
  return profiles;
}

/// Returns the power limits that this process reads of the GPU, as if every setting were allowed.
FoundGpu found_here(Gpu& gpu) {
  FoundGpu found;
  const Result<PowerLimitRange> range = gpu.power_limit_range();
  if (range.ok()) {
    found.offer.limits = *range;
    found.offer.allowed_limits = {{range->lowest, range->highest}};
  }
  const Result<Watts> limit = gpu.power_limit();
  if (limit.ok()) found.found.power_limit = *limit;
  return found;
}

// Smallest forecast gain that is acted upon.
constexpr double kLeastGain = 0.01;

constexpr const char* kWindow = "harpe tuning";
constexpr Seconds kSettlingLook{0.005};

/// Meter of a job's GPUs. Its energy monitor may measure other windows at the same time.
class MonitorMeter final : public WindowMeter {
 public:
  /// Monitor and clock must outlive this object.
  /// \param with_node  true to include CPUs and their memory if they can be read
  MonitorMeter(EnergyMonitor& monitor, bool with_node, Clock& clock)
      : monitor_(monitor), with_node_(with_node), clock_(clock) {}

  Status begin(Instant at) override { return monitor_.begin(kWindow, true, at); }

  bool settled(Instant at) const override { return monitor_.settled(at); }

  void settle(Instant at) override {
    while (!settled(at) && clock_.now() < at + kLongestSettling) {
      clock_.sleep_until(clock_.now() + kSettlingLook);
    }
  }

  /// Fails if a GPU reported no energy, or only a part.
  Result<MeteredWindow> end(Instant at) override {
    const WindowEnergy used = HARPE_TRY(monitor_.end(kWindow, at));
    MeteredWindow window;
    bool has_gpu = false;
    for (const DeviceEnergy& device : used.devices) {
      const bool is_gpu = device.kind == DeviceEnergy::Kind::kGpu;
      if (!is_gpu && !with_node_) continue;
      if (is_gpu && device.error) return *device.error;
      if (is_gpu && device.energy.source == EnergySource::kNone) {
        return Error::of(ErrorCode::kNotSupported, device.label() + " reports no energy");
      }
      has_gpu = has_gpu || is_gpu;
      window.energy += device.energy.energy;
      window.error = {std::hypot(window.error.value, device.energy.error.value)};
    }
    if (!has_gpu) return Error::of(ErrorCode::kNotFound, "there is no GPU");
    return window;
  }

  void cancel() override { (void)monitor_.cancel(kWindow).ok(); }

 private:
  EnergyMonitor& monitor_;
  bool with_node_;
  Clock& clock_;
};

constexpr double kLowestClockShare = 0.45;
constexpr std::size_t kMostClocks = 32;
constexpr double kLimits = 20, kRoundStep = 5;  // W

template <class Range, class Quantity>
bool holds(const std::vector<Range>& ranges, Quantity value) {
  return std::ranges::any_of(
      ranges, [&](const Range& one) { return one.lowest <= value && value <= one.highest; });
}

/// Returns at most `most` of the values, evenly spaced, including the first and the last.
std::vector<double> thinned(const std::vector<double>& values, std::size_t most) {
  if (values.size() <= most) return values;
  std::vector<double> kept;
  const double step = static_cast<double>(values.size() - 1) / static_cast<double>(most - 1);
  for (std::size_t i = 0; i < most; ++i) {
    kept.push_back(values[static_cast<std::size_t>(std::lround(step * static_cast<double>(i)))]);
  }
  return kept;
}

/// Returns the highest clock that the GPU's settings allowed at first; 0 if unknown.
int found_clock(const FoundGpu& gpu) {
  if (gpu.offer.clocks.empty()) return 0;
  const int top = gpu.offer.clocks.back().value;
  const auto& lock = gpu.found.graphics_lock;
  return lock && lock->range ? std::min(lock->range->highest.value, top) : top;
}

Knob descending(KnobKind kind, std::vector<double> settings) {
  Result<Knob> knob = Knob::make(kind, std::move(settings));
  return knob.ok() ? std::move(knob).take() : Knob();
}

}  // namespace

JobTuning::JobTuning(JobTuningOptions options) : options_(std::move(options)) {
  report_.selector = options_.selector;
  report_.measures_node = options_.measures_node;
  key_.job = options_.job.substr(0, kLongestText);
  key_.batch_size = options_.batch_size;
}

JobTuning::~JobTuning() = default;

Result<std::unique_ptr<JobTuning>> JobTuning::make(JobTuningOptions options) {
  HARPE_TRY(check(options.selector));
  std::vector<LimitProfile> profiles = HARPE_TRY(read_profiles(options.profile));
  std::unique_ptr<JobTuning> tuning(new JobTuning(std::move(options)));
  tuning->profiles_ = std::move(profiles);
  return tuning;
}

void JobTuning::start(EnergyMonitor* monitor, Clock& clock, Peers* peers) {
  const bool has_gpus = monitor != nullptr && !monitor->gpus().empty();
  if (has_gpus) {
    look_at_gpus(*monitor);
    open_setter(*monitor, clock);
    meter_ = std::make_unique<MonitorMeter>(*monitor, options_.measures_node, clock);
  } else {
    report_.why_nothing_was_set =
        monitor == nullptr ? "the GPUs did not answer in time" : "there is no GPU here";
  }
  // A process without GPUs still notifies the others.
  const Status agreed = peers == nullptr ? ok_status() : agree_on_objective(*peers);
  if (has_gpus && !agreed.ok()) report_.why_nothing_was_set = agreed.error().text();
  if (!has_gpus || !agreed.ok()) return;
  TunerOptions options{.selector = report_.selector,
                       .own_host_power = options_.selector.host_power,
                       .batch_size = options_.batch_size};
  take_known(options);
  Result<std::unique_ptr<Tuner>> tuner = Tuner::make(std::move(options), *setter_, *meter_, peers);
  if (!tuner.ok()) {
    report_.why_nothing_was_set = tuner.error().text();
    return;
  }
  tuner_ = std::move(tuner).take();
  tuner_->start();
}

/// Reads the GPUs' models and power limits, for the objective and for advice.
void JobTuning::look_at_gpus(EnergyMonitor& monitor) {
  const std::vector<GpuIdentity> gpus = monitor.gpus();
  std::vector<FoundGpu> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    monitor.use_gpu(i, [&](Gpu& gpu) { found.push_back(found_here(gpu)); });
  }
  report_.could_be = limit_knob(found);
  report_.selector.gpus = static_cast<int>(gpus.size());
  for (const FoundGpu& gpu : found) {
    if (!gpu.offer.limits) continue;
    report_.selector.max_power = std::max(report_.selector.max_power, gpu.offer.limits->highest);
  }
  key_.gpu_model = gpus.front().name;
}

void JobTuning::open_setter(EnergyMonitor& monitor, Clock& clock) {
  std::vector<std::string> uuids;
  for (const GpuIdentity& gpu : monitor.gpus()) uuids.push_back(gpu.uuid);
  Result<std::unique_ptr<KnobSetter>> opened = open_agent_setter(
      node::agent_socket(options_.socket), uuids, options_.lease, options_.patience, clock);
  if (opened.ok()) {
    setter_ = std::move(opened).take();
    return;
  }
  report_.why_nothing_was_set = opened.error().text();
  // A GPU without power limits is measured as well; its setting is then only a name.
  const double found = report_.could_be.size() > 0 ? report_.could_be[0] : 1;
  setter_ = std::make_unique<NoSetter>(Knob::make(KnobKind::kPowerLimit, {found}).take());
}

/// Combines the objective of all processes, so that it counts all GPUs and nodes of the job.
Status JobTuning::agree_on_objective(Peers& peers) {
  Selector& selector = report_.selector;
  std::array<double, 2> sums{static_cast<double>(selector.gpus), selector.host_power.value};
  std::array<double, 1> highest{selector.max_power.value};
  JobAgreement job(&peers);
  if (meter_ == nullptr) job.lose("this process cannot measure");
  HARPE_TRY(job.exchange(sums, highest));
  selector.gpus = static_cast<int>(sums[0]);
  selector.host_power = {sums[1]};
  selector.max_power = {highest[0]};
  return ok_status();
}

void JobTuning::take_known(TunerOptions& options) {
  if (report_.selector.gpus > 1) key_.gpu_model += " x " + std::to_string(report_.selector.gpus);
  const bool sizes_apart = is_folder(options_.profile);
  for (const LimitProfile& profile : profiles_) {
    ProfileKey wanted = key_;
    const bool is_other = sizes_apart && profile.key && profile.key->batch_size != key_.batch_size;
    if (is_other) wanted.batch_size = profile.key->batch_size;
    auto stale = why_stale(profile, wanted, now_on_the_wall(), kOldestProfile);
    if (!stale && profile.kind != setter_->knob().kind()) {
      stale = "it is for another kind of setting";
    }
    if (stale && !sizes_apart) {
      report_.notes.push_back(options_.profile.string() + " was not reused: " + *stale);
    }
    if (stale) continue;
    if (is_other) {
      options.others.push_back({.batch_size = wanted.batch_size, .measured = profile.measurements});
    } else {
      options.known = profile.measurements;
    }
  }
}

TuningReport JobTuning::finish() {
  if (tuner_) report_.result = tuner_->result();
  for (const std::string& why : report_.result.trials_ended) {
    report_.notes.push_back("No more settings were tried: " + why);
  }
  advise_where_nothing_is_set();
  write_profile();
  tuner_.reset();
  meter_.reset();
  setter_.reset();
  return report_;
}

void JobTuning::advise_where_nothing_is_set() {
  const bool measured = !report_.result.costs.empty() && report_.result.costs[0].steps > 0;
  if (report_.why_nothing_was_set.empty() || !measured || !report_.could_be.can_choose()) return;
  const StepCost& own = report_.result.costs[0];
  Measurement found{report_.could_be[0], own.time, own.energy};
  // Figures of all GPUs that the selector counts, if other processes have some of them.
  const bool is_of_all = report_.result.job_saving.has_value();
  if (is_of_all && !report_.result.measurements.empty()) {
    found.time = report_.result.measurements[0].time;
    found.energy = report_.result.measurements[0].energy;
  }
  report_.advice = advise(report_.could_be, found, report_.selector);
}

void JobTuning::write_profile() {
  const TuningResult& result = report_.result;
  if (options_.profile.empty() || !options_.writes_profile || result.from_profile ||
      !result.decided || result.measurements.size() < 2 || !result.trials_ended.empty()) {
    return;
  }
  const std::filesystem::path file = file_of(options_);
  std::error_code none;
  if (is_folder(options_.profile)) std::filesystem::create_directories(options_.profile, none);
  const Status written = write_file(file, limit_profile_json({.kind = result.knob.kind(),
                                                              .measurements = result.measurements,
                                                              .key = key_,
                                                              .measured_at = now_on_the_wall()}));
  report_.notes.push_back(written.ok() ? "the measurements are in " + file.string()
                                       : written.error().text());
}

std::optional<Advice> advise(const Knob& knob, const Measurement& highest,
                             const Selector& selector) {
  if (!knob.can_choose() || selector.kind == Selector::Kind::kMaxSlowdown) return std::nullopt;
  std::vector<std::optional<Measurement>> measured(knob.size());
  measured[0] = highest;
  const auto forecast = SettingModel(knob, highest, selector.gpus).forecast(measured);
  const ScoreWeights weights = weights_of(selector, knob[0]);
  double best = std::log(weights.of(highest.time, highest.energy) * (1 - kLeastGain));
  std::optional<Advice> advice;
  for (std::size_t i = 1; i < knob.size(); ++i) {
    const double slowdown = std::exp(forecast[i].log_time);
    if (selector.most_slowdown && slowdown > *selector.most_slowdown) continue;
    const double score = score_of(forecast[i], highest, weights).log_score;
    if (!(score < best)) continue;
    best = score;
    const double energy = std::exp(forecast[i].log_time + forecast[i].log_power);
    advice = Advice{.setting = i, .slowdown = slowdown - 1, .saving = 1 - energy};
  }
  return advice;
}

Knob clock_knob(std::span<const FoundGpu> gpus) {
  int top = std::numeric_limits<int>::max();
  for (const FoundGpu& gpu : gpus) top = std::min(top, found_clock(gpu));
  if (gpus.empty() || top <= 0) return {};
  std::vector<double> lower;
  for (const Megahertz clock : gpus.front().offer.clocks) {
    const bool is_for_all = std::ranges::all_of(gpus, [&](const FoundGpu& gpu) {
      return std::ranges::binary_search(gpu.offer.clocks, clock) &&
             holds(gpu.offer.allowed_clocks, clock);
    });
    if (is_for_all && clock.value < top && clock.value >= kLowestClockShare * top) {
      lower.push_back(clock.value);
    }
  }
  std::ranges::reverse(lower);
  std::vector<double> settings = thinned(lower, kMostClocks - 1);
  settings.insert(settings.begin(), top);
  return descending(KnobKind::kGraphicsClock, std::move(settings));
}

Knob limit_knob(std::span<const FoundGpu> gpus) {
  double top = std::numeric_limits<double>::infinity(), lowest = 0;
  for (const FoundGpu& gpu : gpus) {
    if (!gpu.offer.limits) return {};
    const Watts found = gpu.found.power_limit.value_or(gpu.offer.limits->factory);
    top = std::min({top, found.value, gpu.offer.limits->highest.value});
    lowest = std::max(lowest, gpu.offer.limits->lowest.value);
  }
  if (gpus.empty() || !(top > 0)) return {};
  const double step = std::max(1.0, std::ceil((top - lowest) / kLimits / kRoundStep)) * kRoundStep;
  std::vector<double> settings = {top};
  for (double limit = top - step; limit >= lowest && limit > 0; limit -= step) {
    const bool is_for_all = std::ranges::all_of(
        gpus, [&](const FoundGpu& gpu) { return holds(gpu.offer.allowed_limits, Watts{limit}); });
    if (is_for_all) settings.push_back(limit);
  }
  return descending(KnobKind::kPowerLimit, std::move(settings));
}

}  // namespace harpe::zeus
