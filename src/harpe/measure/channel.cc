#include "harpe/measure/channel.h"

#include <algorithm>
#include <utility>

namespace harpe {
namespace {

constexpr Seconds kFirstPatience{0.25}, kMostPatience{30};
constexpr Seconds kAveragingTime{1};  // of NVML's average power
constexpr Seconds kRaplStep{0.001};

/// A reading's time is its middle: a driver may take long to answer.
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

/// Of a device that failed: to its last good reading.
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

GpuChannel::GpuChannel(Gpu& gpu, const MonitorOptions& options) : gpu_(&gpu), options_(&options) {
  EstimatorOptions estimator = estimator_options(options, options.gpu_accuracy);
  const auto lacks = [](const auto& result) {
    return !result.ok() && result.error().code == ErrorCode::kNotSupported;
  };
  if (const Result<PowerLimitRange> range = gpu.power_limit_range(); range.ok()) {
    estimator.highest_power = range->highest;
  }
  has_counter_ = !lacks(gpu.total_energy());
  has_instant_ = !lacks(gpu.instant_power());
  if (!has_instant_) {
    has_average_ = !lacks(gpu.average_power());
    estimator.power_window = kAveragingTime;
  }
  estimator_ = EnergyEstimator(std::move(estimator));
}

void GpuChannel::succeeded() {
  fault_.reset();
  patience_ = {0};
}

void GpuChannel::failed(Error error, Instant now) {
  fault_ = std::move(error);
  patience_ = std::clamp(patience_ * 2, kFirstPatience, kMostPatience);
  next_try_ = now + patience_;
  for (auto& [id, window] : windows_) window.failed_reads += 1;
}

void GpuChannel::read_power(Clock& clock) {
  EnergySample sample;
  const Result<Watts> power = timed(
      clock, sample, [&] { return has_instant_ ? gpu_->instant_power() : gpu_->average_power(); });
  if (!power.ok()) return failed(power.error(), clock.now());
  sample.power = *power;
  estimator_.add(sample);
}

void GpuChannel::read_counter(Clock& clock) {
  EnergySample sample;
  const Result<Joules> energy = timed(clock, sample, [&] { return gpu_->total_energy(); });
  if (!energy.ok()) return failed(energy.error(), clock.now());
  sample.counter = *energy;
  estimator_.add(sample);
}

void GpuChannel::read(Clock& clock, bool edge) {
  const Instant now = clock.now();
  if (patience_.value > 0 && now < next_try_) {
    for (auto& [id, window] : windows_) window.failed_reads += 1;
    return;
  }
  if (!has_counter_ && !has_instant_ && !has_average_) {
    fault_ = Error::of(ErrorCode::kNotSupported,
                       "this GPU tells neither energy nor power; a newer driver may");
    return;
  }
  const bool was_failing = patience_.value > 0;
  const Seconds before = patience_;
  if (has_instant_ || has_average_) read_power(clock);
  const Seconds longest{1.3 / options_->rate};
  const bool still_sound = patience_ == before;
  if (still_sound && has_counter_ && (edge || estimator_.counter_due(now, longest))) {
    read_counter(clock);
  }
  if (patience_ == before && (was_failing || fault_)) succeeded();
  if (patience_.value > 0) return;
  if (edge || now >= next_reasons_) look_at_reasons(now);
  if (now >= next_processes_) look_at_processes(now);
}

void GpuChannel::look_at_reasons(Instant now) {
  next_reasons_ = now + options_->reasons_interval;
  if (!has_reasons_ || windows_.empty()) return;
  const Result<EventReasons> reasons = gpu_->event_reasons();
  if (!reasons.ok()) {
    has_reasons_ = reasons.error().code != ErrorCode::kNotSupported;
    return;
  }
  for (auto& [id, window] : windows_) {
    window.looks += 1;
    window.throttled += reasons->throttled() ? 1 : 0;
    window.reasons.bits |= reasons->bits;
  }
}

void GpuChannel::look_at_processes(Instant now) {
  next_processes_ = now + options_->processes_interval;
  if (!has_processes_ || windows_.empty()) return;
  const Result<std::vector<std::int64_t>> processes = gpu_->processes();
  if (!processes.ok()) {
    has_processes_ = processes.error().code != ErrorCode::kNotSupported;
    return;
  }
  for (auto& [id, window] : windows_) window.processes.insert(processes->begin(), processes->end());
}

void GpuChannel::open(std::uint64_t window, Instant begin) {
  windows_[window] = {
      .begin = begin, .energy = estimator_.open(begin), .reasons = {}, .processes = {}};
}

void GpuChannel::drop(std::uint64_t window) {
  const auto found = windows_.find(window);
  if (found == windows_.end()) return;
  estimator_.close(found->second.energy, found->second.begin);
  windows_.erase(found);
}

DeviceEnergy GpuChannel::answer(std::uint64_t window, Instant end, WindowEnd kind) const {
  const GpuIdentity& identity = gpu_->identity();
  DeviceEnergy result{.kind = DeviceEnergy::Kind::kGpu,
                      .index = identity.index,
                      .name = identity.name,
                      .uuid = identity.uuid,
                      .energy = {},
                      .fault = fault_,
                      .reasons = {},
                      .whole_module = gpu_->power_scope() == PowerScope::kModule,
                      .processes = {}};
  const auto found = windows_.find(window);
  if (found == windows_.end()) return result;
  const ChannelWindow& state = found->second;
  result.energy = energy_until_fault(estimator_, state.energy, fault_.has_value(), end, kind);
  result.failed_reads = state.failed_reads;
  result.reasons = state.reasons;
  result.throttled_share =
      state.looks == 0 ? 0
                       : static_cast<double>(state.throttled) / static_cast<double>(state.looks);
  result.processes.assign(state.processes.begin(), state.processes.end());
  return result;
}

EnergyEstimate GpuChannel::between(TimeSpan span) const {
  if (!estimator_.newest()) return {};
  const Instant known = fault_ ? std::min(*estimator_.newest(), span.end) : span.end;
  if (known <= span.begin) return {.missing = span.end - span.begin};
  EnergyEstimate energy = estimator_.between(span.begin, known);
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
    fault_ = energy.error();
    for (auto& [id, window] : windows_) window.failed_reads += 1;
    return;
  }
  fault_.reset();
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

void CpuChannel::answer(std::uint64_t window, Instant end, WindowEnd kind,
                        std::vector<DeviceEnergy>& into) const {
  DeviceEnergy result{.kind = DeviceEnergy::Kind::kCpu,
                      .index = cpu_->index(),
                      .name = cpu_->name(),
                      .uuid = {},
                      .energy = {},
                      .fault = fault_,
                      .reasons = {},
                      .processes = {}};
  const auto found = windows_.find(window);
  if (found != windows_.end()) {
    result.energy =
        energy_until_fault(package_, found->second.energy, fault_.has_value(), end, kind);
    result.failed_reads = found->second.failed_reads;
  }
  into.push_back(result);
  if (!cpu_->has_dram()) return;
  result.kind = DeviceEnergy::Kind::kDram;
  if (found != windows_.end()) {
    result.energy = energy_until_fault(dram_, found->second.dram, fault_.has_value(), end, kind);
  }
  into.push_back(std::move(result));
}

}  // namespace harpe
