#include "harpe/device/hw/sim/simulated_gpu.h"

#include <cerrno>
#include <cmath>
#include <csignal>

namespace harpe {

SimulatedGpu::SimulatedGpu(std::shared_ptr<SimulationCore> core, int index)
    : core_(std::move(core)), index_(index) {
  identity_ = {.index = index,
               .uuid = spec().uuid,
               .pci = spec().pci,
               .name = spec().name,
               .backend = "sim",
               .is_mig = spec().mig,
               .speed = static_cast<double>(spec().cores) * spec().gpu.max_clock.value};
}

std::filesystem::path SimulatedGpu::owner_lock() const {
  const std::filesystem::path& state = core_->state_file();
  return state.empty() ? state : std::filesystem::path(state.string() + ".lock");
}

template <class T, class Reading>
Result<T> SimulatedGpu::read(const Reading& reading) {
  const SimulatedGpuState state = HARPE_TRY(core_->read(index_));
  return T{reading(state)};
}

Result<Joules> SimulatedGpu::total_energy() {
  if (!spec().has_counter) return not_supported("reading its energy");
  return read<Joules>([&](const auto& state) { return visible_energy(spec(), state); });
}

Result<Watts> SimulatedGpu::instant_power() {
  return read<Watts>([&](const auto& state) { return visible_instant_power(spec(), state); });
}

Result<Watts> SimulatedGpu::average_power() {
  return read<Watts>([&](const auto& state) { return visible_average_power(spec(), state); });
}

PowerScope SimulatedGpu::power_scope() const {
  return spec().module_scope ? PowerScope::kModule : PowerScope::kGpu;
}

Result<Megahertz> SimulatedGpu::clock(ClockDomain domain) {
  return read<Megahertz>([&](const auto& state) { return visible_clock(spec(), state, domain); });
}

Result<std::vector<Megahertz>> SimulatedGpu::supported_clocks(ClockDomain domain) {
  HARPE_TRY(core_->read(index_));
  std::vector<Megahertz> clocks;
  for (const int clock : harpe::supported_clocks(spec(), domain)) clocks.push_back({clock});
  return clocks;
}

Result<std::optional<ClockRange>> SimulatedGpu::locked_clocks(ClockDomain domain) {
  const auto state = HARPE_TRY(core_->read(index_));
  const SimulatedClockLock& lock = state.lock_asked[domain == ClockDomain::kMemory ? 1 : 0];
  if (!lock.on) return std::optional<ClockRange>();
  return std::optional(ClockRange{{lock.lowest}, {lock.highest}});
}

Result<Watts> SimulatedGpu::power_limit() {
  return read<Watts>([](const auto& state) { return state.limit_w; });
}

Result<Watts> SimulatedGpu::enforced_power_limit() {
  return read<Watts>([&](const auto& state) { return enforced_limit(spec(), state); });
}

Result<PowerLimitRange> SimulatedGpu::power_limit_range() {
  HARPE_TRY(core_->read(index_));
  return PowerLimitRange{{spec().lowest_limit_w}, {spec().highest_limit_w}, spec().gpu.power_limit};
}

Result<double> SimulatedGpu::temperature() {
  return read<double>([](const auto& state) { return std::floor(state.temperature_c); });
}

Result<double> SimulatedGpu::utilisation() {
  return read<double>([](const auto& state) { return visible_utilisation(state); });
}

Result<MemoryUse> SimulatedGpu::memory() {
  const std::vector<std::int64_t> users = HARPE_TRY(processes());
  return MemoryUse{.used_bytes = kSimulatedReservedBytes + users.size() * kSimulatedProcessBytes,
                   .total_bytes = spec().memory_bytes};
}

Result<EventReasons> SimulatedGpu::event_reasons() {
  return read<EventReasons>([](const auto& state) { return state.reasons; });
}

Result<bool> SimulatedGpu::persistence_mode() {
  return read<bool>([](const auto& state) { return state.persistence; });
}

Result<std::vector<std::int64_t>> SimulatedGpu::processes() {
  const auto state = HARPE_TRY(core_->read(index_));
  std::vector<std::int64_t> processes;
  for (const int pid : state.process) {
    if (pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM)) processes.push_back(pid);
  }
  return processes;
}

Status SimulatedGpu::set_locked_clocks(ClockDomain domain, ClockRange range) {
  return core_->lock_clocks(index_, domain, {true, range.lowest.value, range.highest.value});
}

Status SimulatedGpu::reset_locked_clocks(ClockDomain domain) {
  return core_->lock_clocks(index_, domain, {});
}

Status SimulatedGpu::set_power_limit(Watts limit) {
  return core_->set_power_limit(index_, limit);
}

Status SimulatedGpu::set_persistence_mode(bool enabled) {
  return core_->set_persistence(index_, enabled);
}

}  // namespace harpe
