#include "harpe/device/measure/channel.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::device {
namespace {

constexpr Seconds kFirstPatience{0.25}, kMostPatience{30};
constexpr Seconds kAveragingTime{1};  // of NVML's average power
constexpr Seconds kRaplStep{0.001};
constexpr Seconds kLongestCall{5};  // of a slow driver that does not hang

/// Reads a value and sets the sample's time to the middle of the call, because drivers can be slow.
template <class Read>
auto timed(Clock& clock, EnergySample& sample, Read read) {
  const Instant before = clock.now();
  auto value = read();
  const Instant after = clock.now();
  sample.time = {before.ns + (after.ns - before.ns) / 2};
  sample.spread = (after - before) / 2;
  return value;
}

EstimatorOptions estimator_options(const MonitorOptions& options, const SensorAccuracy& accuracy) {
  return {.longest_interval = {std::max(1.0, 10 / options.rate)},
          .history = options.history,
          .accuracy = accuracy};
}

/// Returns the energy of a window; if the device failed, only up to its last good reading.
EnergyEstimate energy_until_fault(const EnergyEstimator& estimator, int window, bool failed,
                                  Instant end, WindowEnd kind) {
  if (!failed || !estimator.newest() || *estimator.newest() >= end) {
    return estimator.so_far(window, end, kind);
  }
  EnergyEstimate energy = estimator.so_far(window, *estimator.newest());
  energy.missing = end - *estimator.newest();
  return energy;
}

}  // namespace

GpuChannel::GpuChannel(Gpu& gpu, const MonitorOptions& options)
    : gpu_(&gpu),
      options_(&options),
      estimator_(estimator_options(options, options.gpu_accuracy)) {}

/// Determines at the first reading which values the device supports.
void GpuChannel::probe() {
  const auto lacks = [](const auto& result) {
    return !result.ok() && result.error().code == ErrorCode::kNotSupported;
  };
  Watts highest{0};
  Seconds power_window{0};
  if (const Result<PowerLimitRange> range = gpu_->power_limit_range(); range.ok()) {
    highest = range->highest;
  }
  has_counter_ = !lacks(gpu_->total_energy());
  has_instant_ = !lacks(gpu_->instant_power());
  if (!has_instant_) {
    has_average_ = !lacks(gpu_->average_power());
    power_window = kAveragingTime;
  }
  const bool whole_module = gpu_->power_scope() == PowerScope::kModule;
  probed_ = true;
  const MutexLock lock(mutex_);
  estimator_.describe(power_window, highest);
  whole_module_ = whole_module;
}

/// Records the result of a reading. Returns true if it succeeded.
bool GpuChannel::took(const Error* error, Instant now) {
  if (error == nullptr) return true;
  patience_ = std::clamp(patience_ * 2, kFirstPatience, kMostPatience);
  next_try_ = now + patience_;
  const MutexLock lock(mutex_);
  error_ = *error;
  for (auto& [id, window] : windows_) window.failed_reads += 1;
  return false;
}

bool GpuChannel::read_power(Clock& clock) {
  EnergySample sample;
  const bool instant = has_instant_;
  const Result<Watts> power =
      timed(clock, sample, [&] { return instant ? gpu_->instant_power() : gpu_->average_power(); });
  if (!power.ok()) return took(&power.error(), clock.now());
  sample.power = *power;
  const MutexLock lock(mutex_);
  estimator_.add(sample);
  return true;
}

bool GpuChannel::read_counter(Clock& clock) {
  EnergySample sample;
  const Result<Joules> energy = timed(clock, sample, [&] { return gpu_->total_energy(); });
  if (!energy.ok()) return took(&energy.error(), clock.now());
  sample.counter = *energy;
  const MutexLock lock(mutex_);
  estimator_.add(sample);
  return true;
}

/// Returns true if the device may be read. If it failed a short time ago, counts a failed read in
/// every open window and returns false.
bool GpuChannel::count_try(Instant now) {
  if (patience_.value == 0 || now >= next_try_) return true;
  const MutexLock lock(mutex_);
  for (auto& [id, window] : windows_) window.failed_reads += 1;
  return false;
}

void GpuChannel::read(Clock& clock, bool edge) {
  const MutexLock driver(driver_mutex_);
  const Instant now = clock.now();
  if (!count_try(now)) return;
  if (!probed_) probe();
  if (!has_counter_ && !has_instant_ && !has_average_) {
    const MutexLock lock(mutex_);
    error_ = Error::of(ErrorCode::kNotSupported,
                       "this GPU reports neither energy nor power; a newer driver may");
    return;
  }
  if ((has_instant_ || has_average_) && !read_power(clock)) return;
  if (has_counter_) {
    const Seconds longest{1.3 / options_->rate};
    MutexLock lock(mutex_);
    const bool due = edge || estimator_.counter_due(now, longest);
    lock.unlock();
    if (due && !read_counter(clock)) return;
  }
  patience_ = {0};
  bool followed = false;
  {
    const MutexLock lock(mutex_);
    error_.reset();
    followed = !windows_.empty();
  }
  if (followed && (edge || now >= next_reasons_)) look_at_reasons(now);
  if (followed && now >= next_processes_) look_at_processes(now);
}

void GpuChannel::use(const std::function<void(Gpu&)>& use) {
  const MutexLock driver(driver_mutex_);
  use(*gpu_);
}

void GpuChannel::look_at_reasons(Instant now) {
  next_reasons_ = now + options_->reasons_interval;
  if (!has_reasons_) return;
  const Result<EventReasons> reasons = gpu_->event_reasons();
  if (!reasons.ok()) {
    has_reasons_ = reasons.error().code != ErrorCode::kNotSupported;
    return;
  }
  const MutexLock lock(mutex_);
  for (auto& [id, window] : windows_) {
    window.looks += 1;
    window.throttled += reasons->throttled() ? 1 : 0;
    window.reasons.bits |= reasons->bits;
  }
}

void GpuChannel::look_at_processes(Instant now) {
  next_processes_ = now + options_->processes_interval;
  if (!has_processes_) return;
  const Result<std::vector<std::int64_t>> processes = gpu_->processes();
  if (!processes.ok()) {
    has_processes_ = processes.error().code != ErrorCode::kNotSupported;
    return;
  }
  const MutexLock lock(mutex_);
  for (auto& [id, window] : windows_) window.processes.insert(processes->begin(), processes->end());
}

void GpuChannel::open(std::uint64_t window, Instant begin) {
  const MutexLock lock(mutex_);
  windows_[window] = {
      .begin = begin, .energy = estimator_.open(begin), .reasons = {}, .processes = {}};
}

void GpuChannel::drop(std::uint64_t window) {
  const MutexLock lock(mutex_);
  const auto found = windows_.find(window);
  if (found == windows_.end()) return;
  estimator_.close(found->second.energy, found->second.begin);
  windows_.erase(found);
}

bool GpuChannel::settled(Instant at) const {
  const MutexLock lock(mutex_);
  return error_.has_value() || estimator_.settled(at);
}

std::vector<CounterEdge> GpuChannel::edges(Instant since) const {
  const MutexLock lock(mutex_);
  return estimator_.edges(since);
}

DeviceEnergy GpuChannel::respond(std::uint64_t window, Instant end, WindowEnd kind,
                                 std::optional<Seconds> unanswered) const {
  const GpuIdentity& identity = gpu_->identity();
  const MutexLock lock(mutex_);
  std::optional<Error> error = error_;
  const auto newest = estimator_.newest();
  // A slow driver may still answer, but a look does not wait for it.
  const Seconds stale = kind == WindowEnd::kLook ? kLongestCall : Seconds{0};
  if (!error && unanswered && (!newest || end - *newest > stale)) {
    error = Error::of(ErrorCode::kUnavailable,
                      "its driver has not answered for " + shortest(unanswered->value, 1) + " s");
  }
  DeviceEnergy result{.kind = DeviceEnergy::Kind::kGpu,
                      .index = identity.index,
                      .name = identity.name,
                      .uuid = identity.uuid,
                      .energy = {},
                      .error = error,
                      .reasons = {},
                      .whole_module = whole_module_,
                      .processes = {}};
  const auto found = windows_.find(window);
  if (found == windows_.end()) return result;
  const ChannelWindow& state = found->second;
  result.energy = energy_until_fault(estimator_, state.energy, error.has_value(), end, kind);
  result.failed_reads = state.failed_reads;
  result.reasons = state.reasons;
  result.throttled_share =
      state.looks == 0 ? 0
                       : static_cast<double>(state.throttled) / static_cast<double>(state.looks);
  result.processes.assign(state.processes.begin(), state.processes.end());
  return result;
}

EnergyEstimate GpuChannel::between(TimeSpan span) const {
  const MutexLock lock(mutex_);
  if (!estimator_.newest()) return {};
  const Instant known = error_ ? std::min(*estimator_.newest(), span.end) : span.end;
  if (known <= span.begin) return {.missing = span.end - span.begin};
  EnergyEstimate energy = estimator_.quickly_between(span.begin, known);
  energy.missing = span.end - known;
  return energy;
}

CpuChannel::CpuChannel(Cpu& cpu, const MonitorOptions& options) : cpu_(&cpu) {
  EstimatorOptions estimator = estimator_options(options, options.cpu_accuracy);
  estimator.counter_step = kRaplStep;
  estimator.longest_interval = {60};
  package_ = EnergyEstimator(estimator);
  dram_ = EnergyEstimator(estimator);
}

void CpuChannel::read(Clock& clock) {
  EnergySample sample;
  const Result<CpuEnergy> energy = timed(clock, sample, [&] { return cpu_->total_energy(); });
  last_read_ = sample.time;
  if (!energy.ok()) {
    error_ = energy.error();
    for (auto& [id, window] : windows_) window.failed_reads += 1;
    return;
  }
  error_.reset();
  sample.counter = energy->package;
  package_.add(sample);
  if (energy->dram) {
    sample.counter = energy->dram;
    dram_.add(sample);
  }
}

void CpuChannel::open(std::uint64_t window, Instant begin) {
  windows_[window] = {.begin = begin,
                      .energy = package_.open(begin),
                      .dram = dram_.open(begin),
                      .reasons = {},
                      .processes = {}};
}

void CpuChannel::drop(std::uint64_t window) {
  const auto found = windows_.find(window);
  if (found == windows_.end()) return;
  package_.close(found->second.energy, found->second.begin);
  dram_.close(found->second.dram, found->second.begin);
  windows_.erase(found);
}

void CpuChannel::respond(std::uint64_t window, Instant end, WindowEnd kind,
                         std::vector<DeviceEnergy>& into) const {
  DeviceEnergy result{.kind = DeviceEnergy::Kind::kCpu,
                      .index = cpu_->index(),
                      .name = cpu_->name(),
                      .uuid = {},
                      .energy = {},
                      .error = error_,
                      .reasons = {},
                      .processes = {}};
  const auto found = windows_.find(window);
  if (found != windows_.end()) {
    result.energy =
        energy_until_fault(package_, found->second.energy, error_.has_value(), end, kind);
    result.failed_reads = found->second.failed_reads;
  }
  into.push_back(result);
  if (!cpu_->has_dram()) return;
  result.kind = DeviceEnergy::Kind::kDram;
  if (found != windows_.end()) {
    result.energy = energy_until_fault(dram_, found->second.dram, error_.has_value(), end, kind);
  }
  into.push_back(std::move(result));
}

}  // namespace harpe::device
