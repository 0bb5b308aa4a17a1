#include "harpe/device/hw/sim/simulation_core.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <memory>

#include "harpe/base/text.h"
#include "harpe/device/hw/device.h"

namespace harpe::device {
namespace {

/// Device interface of a simulated GPU.
class SimulatedGpu final : public Gpu {
 public:
  SimulatedGpu(std::shared_ptr<SimulationCore> core, int index)
      : core_(std::move(core)), index_(index) {
    identity_ = {.index = index,
                 .uuid = spec().uuid,
                 .pci = spec().pci,
                 .name = spec().name,
                 .backend = "sim",
                 .is_mig = spec().mig,
                 .speed = static_cast<double>(spec().cores) * spec().gpu.max_clock.value};
  }

  const GpuIdentity& identity() const override { return identity_; }

  std::filesystem::path owner_lock() const override {
    const std::filesystem::path& state = core_->state_file();
    return state.empty() ? state : std::filesystem::path(state.string() + ".lock");
  }

  std::filesystem::path device_file() const override { return spec().device_file; }

  Result<Joules> total_energy() override {
    if (!spec().has_counter) return not_supported("reading its energy");
    return read<Joules>([&](const auto& state) { return visible_energy(spec(), state); });
  }

  Result<Watts> instant_power() override {
    return read<Watts>([&](const auto& state) { return visible_instant_power(spec(), state); });
  }

  Result<Watts> average_power() override {
    return read<Watts>([&](const auto& state) { return visible_average_power(spec(), state); });
  }

  PowerScope power_scope() const override {
    return spec().module_scope ? PowerScope::kModule : PowerScope::kGpu;
  }

  Result<Megahertz> clock(ClockDomain domain) override {
    return read<Megahertz>([&](const auto& state) { return visible_clock(spec(), state, domain); });
  }

  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
    HARPE_TRY(core_->read(index_));
    std::vector<Megahertz> clocks;
    for (const int clock : harpe::device::supported_clocks(spec(), domain))
      clocks.push_back({clock});
    return clocks;
  }

  Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain) override {
    const auto state = HARPE_TRY(core_->read(index_));
    const SimulatedClockLock& lock = state.lock_asked[domain == ClockDomain::kMemory ? 1 : 0];
    if (!lock.on) return std::optional<ClockRange>();
    return std::optional(ClockRange{{lock.lowest}, {lock.highest}});
  }

  Result<Watts> power_limit() override {
    return read<Watts>([](const auto& state) { return state.limit_w; });
  }

  Result<Watts> enforced_power_limit() override {
    return read<Watts>([&](const auto& state) { return enforced_limit(spec(), state); });
  }

  Result<PowerLimitRange> power_limit_range() override {
    HARPE_TRY(core_->read(index_));
    return PowerLimitRange{
        {spec().lowest_limit_w}, {spec().highest_limit_w}, spec().gpu.power_limit};
  }

  Result<double> temperature() override {
    return read<double>([](const auto& state) { return std::floor(state.temperature_c); });
  }

  Result<double> utilisation() override {
    return read<double>([](const auto& state) { return visible_utilisation(state); });
  }

  Result<MemoryUse> memory() override {
    const std::vector<std::int64_t> users = HARPE_TRY(processes());
    return MemoryUse{.used_bytes = kSimulatedReservedBytes + users.size() * kSimulatedProcessBytes,
                     .total_bytes = spec().memory_bytes};
  }

  Result<EventReasons> event_reasons() override {
    return read<EventReasons>([](const auto& state) { return state.reasons; });
  }

  Result<bool> persistence_mode() override {
    return read<bool>([](const auto& state) { return state.persistence; });
  }

  Result<std::vector<std::int64_t>> processes() override {
    const auto state = HARPE_TRY(core_->read(index_));
    std::vector<std::int64_t> processes;
    for (const int pid : state.process) {
      if (pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM)) processes.push_back(pid);
    }
    return processes;
  }

  Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
    return core_->lock_clocks(index_, domain, {true, range.lowest.value, range.highest.value});
  }

  Status reset_locked_clocks(ClockDomain domain) override {
    return core_->lock_clocks(index_, domain, {});
  }

  Status set_power_limit(Watts limit) override { return core_->set_power_limit(index_, limit); }

  Status set_persistence_mode(bool enabled) override {
    return core_->set_persistence(index_, enabled);
  }

 private:
  const SimulatedGpuSpec& spec() const { return core_->spec(index_); }

  /// Returns `reading` of the present state.
  template <class T, class Reading>
  Result<T> read(const Reading& reading) {
    const SimulatedGpuState state = HARPE_TRY(core_->read(index_));
    return T{reading(state)};
  }

  std::shared_ptr<SimulationCore> core_;
  int index_;
  GpuIdentity identity_;
};

constexpr std::int64_t kLookNs = 10'000'000;  // interval of checks for a change of the clock

bool is_alive(int pid) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

void note_process(SimulatedGpuState& state, int pid) {
  int* free = nullptr;
  for (int& process : state.process) {
    if (process == pid) return;
    if (!is_alive(process)) free = &process;
  }
  if (free != nullptr) *free = pid;
}

/// Returns a stream for new work: free, or with finished work of a dead owner; -1 if there is none.
int free_stream(SimulatedGpuState& state) {
  for (int i = 0; i < kMaxStreams; ++i) {
    SimulatedStream& stream = state.stream[i];
    if (stream.phase == SimulatedStream::Phase::kFree) return i;
    if (stream.phase == SimulatedStream::Phase::kDone && !is_alive(stream.pid)) return i;
  }
  return -1;
}

std::string described(int gpu, const SimulatedGpuSpec& spec) {
  return "GPU " + std::to_string(gpu) + " (" + spec.name + ", simulated)";
}

std::string lost_text(int gpu, const SimulatedGpuSpec& spec) {
  return described(gpu, spec) + " is lost: it does not respond to calls";
}

bool is_lost(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  return std::any_of(spec.faults.begin(), spec.faults.end(), [&](const SimulatedFault& fault) {
    return fault.kind == SimulatedFault::Kind::kGpuLost && fault.holds(state.time_ns, state.calls);
  });
}

Status check_work(const SimulatedWork& work) {
  if (work.points.empty() || work.points.size() > kMaxWorkPoints) {
    return Error::invalid("work needs 1 to " + std::to_string(kMaxWorkPoints) + " points, not " +
                          std::to_string(work.points.size()));
  }
  int before = 0;
  for (const SimulatedWork::Point& point : work.points) {
    if (point.clock.value <= before) {
      return Error::invalid("the clocks of work must be positive and rise");
    }
    before = point.clock.value;
    // Negated, so that a NaN is refused.
    if (!(point.time.value >= 0 && point.time.value <= 1e9) ||
        !(point.power.value >= 0 && point.power.value <= 1e6)) {
      return Error::invalid("time and power of work must be finite and not negative");
    }
  }
  if (!(work.limit_softness >= 0 && work.limit_softness <= 1)) {
    return Error::invalid("the softness of a limit is from 0 to 1");
  }
  return ok_status();
}

WorkTable table_of(const SimulatedWork& work) {
  WorkTable table;
  table.points = static_cast<int>(work.points.size());
  table.softness = work.limit_softness;
  for (int i = 0; i < table.points; ++i) {
    const SimulatedWork::Point& point = work.points[static_cast<std::size_t>(i)];
    table.clock[i] = point.clock.value;
    table.seconds[i] = point.time.value;
    table.watts[i] = point.power.value;
  }
  return table;
}

/// Returns the highest supported clock at or below `clock`, or else the lowest supported clock.
int rounded_down(const std::vector<int>& supported, int clock) {
  const auto above = std::upper_bound(supported.begin(), supported.end(), clock);
  return above == supported.begin() ? *above : *std::prev(above);
}

class SimulatedCpu final : public Cpu {
 public:
  SimulatedCpu(int index, SimulatedCpuSpec spec, Instant began, Clock& clock)
      : index_(index),
        name_("package-" + std::to_string(index)),
        spec_(spec),
        began_(began),
        clock_(clock) {}

  int index() const override { return index_; }
  const std::string& name() const override { return name_; }
  bool has_dram() const override { return spec_.dram_w > 0; }
  Result<CpuEnergy> total_energy() override {
    const Seconds time = clock_.now() - began_;
    CpuEnergy energy{Watts{spec_.power_w} * time, {}};
    if (has_dram()) energy.dram = Watts{spec_.dram_w} * time;
    return energy;
  }

 private:
  int index_;
  std::string name_;
  SimulatedCpuSpec spec_;
  Instant began_;
  Clock& clock_;
};

}  // namespace

SimulationCore::SimulationCore(SimulationConfig config, std::unique_ptr<StateMemory> memory,
                               Clock& clock, std::filesystem::path state_file)
    : config_(std::move(config)),
      memory_(std::move(memory)),
      clock_(clock),
      state_file_(std::move(state_file)) {}

std::unique_ptr<Gpu> SimulationCore::gpu(int index) {
  return std::make_unique<SimulatedGpu>(shared_from_this(), index);
}

std::vector<std::unique_ptr<Cpu>> SimulationCore::cpus() {
  std::vector<std::unique_ptr<Cpu>> cpus;
  for (const SimulatedCpuSpec& spec : config_.cpus) {
    cpus.push_back(
        std::make_unique<SimulatedCpu>(static_cast<int>(cpus.size()), spec, began(), clock_));
  }
  return cpus;
}

void SimulationCore::update(int gpu, const Change& change) {
  memory_->update(gpu, [&](SimulatedGpuState& state, WorkTable* tables) {
    // The time is read under the lock, so that no other process advances the state beyond it.
    advance(spec(gpu), tables, state, clock_.now().ns - memory_->epoch_ns());
    change(state, tables);
    settle(spec(gpu), tables, state);
  });
}

Status SimulationCore::check(int gpu) const {
  if (gpu >= 0 && gpu < gpus()) return ok_status();
  return Error::of(ErrorCode::kNotFound, "no simulated GPU " + std::to_string(gpu) +
                                             ": there are " + std::to_string(gpus()) +
                                             ", counted from 0");
}

Status SimulationCore::admit(int gpu, const char* what, bool sets) {
  HARPE_TRY(check(gpu));
  const SimulatedGpuSpec& here = spec(gpu);
  double wait = 0;
  bool lost = false, forbidden = sets && here.only_root_sets && geteuid() != 0;
  update(gpu, [&](SimulatedGpuState& state, WorkTable*) {
    ++state.calls;
    lost = is_lost(here, state);
    for (const SimulatedFault& fault : here.faults) {
      if (!fault.holds(state.time_ns, state.calls)) continue;
      using enum SimulatedFault::Kind;
      if (fault.kind == kNoPermission && sets) forbidden = true;
      if (fault.kind == kSlowCall && (sets ? fault.sets : fault.reads)) {
        wait = std::max(wait, fault.amount);
      }
    }
  });
  if (wait > 0) clock_.sleep_until(clock_.now() + Seconds{wait});
  if (lost) return Error::of(ErrorCode::kUnavailable, lost_text(gpu, here));
  const std::string name = described(gpu, here);
  if (forbidden) {
    return Error::of(ErrorCode::kNoPermission,
                     std::string(what) + " of " + name +
                         " is not permitted for this user: run as root, or use `harpe agent`");
  }
  if (sets && here.mig) {
    return Error::of(
        ErrorCode::kNotSupported,
        name +
            " is divided into MIG instances, which share its clocks, its power and its "
            "power limit and have no separate ones: " +
            what + " is refused");
  }
  return ok_status();
}

Result<SimulatedGpuState> SimulationCore::read(int gpu) {
  HARPE_TRY(admit(gpu, "reading", false));
  SimulatedGpuState seen;
  update(gpu, [&](SimulatedGpuState& state, WorkTable*) { seen = state; });
  return seen;
}

Status SimulationCore::write(int gpu, const char* what,
                             const std::function<Status(SimulatedGpuState&)>& change) {
  HARPE_TRY(admit(gpu, what, true));
  Status response = ok_status();
  update(gpu, [&](SimulatedGpuState& state, WorkTable*) { response = change(state); });
  if (!response.ok()) return response;
  clock_.sleep_until(clock_.now() + Seconds{spec(gpu).latency.call_s});
  return response;
}

Status SimulationCore::lock_clocks(int gpu, ClockDomain domain, SimulatedClockLock lock) {
  HARPE_TRY(check(gpu));
  const SimulatedGpuSpec& here = spec(gpu);
  const bool memory = domain == ClockDomain::kMemory;
  if (memory && !here.memory_lock) {
    return Error::of(ErrorCode::kNotSupported,
                     here.name + " (simulated) does not support locking its memory clock");
  }
  if (lock.on && (lock.lowest < 0 || lock.highest <= 0 || lock.lowest > lock.highest)) {
    return Error::invalid("clocks " + std::to_string(lock.lowest) + " to " +
                          std::to_string(lock.highest) +
                          " MHz cannot be locked: the lowest must not be above the highest");
  }
  if (lock.on) {
    const std::vector<int> supported = supported_clocks(here, domain);
    lock.lowest = rounded_down(supported, lock.lowest);
    lock.highest = rounded_down(supported, lock.highest);
  }
  return write(gpu, memory ? "locking the memory clock" : "locking the clock",
               [&](SimulatedGpuState& state) {
                 order_clocks(here, state, domain, lock);
                 return ok_status();
               });
}

Status SimulationCore::set_power_limit(int gpu, Watts limit) {
  HARPE_TRY(check(gpu));
  const SimulatedGpuSpec& here = spec(gpu);
  // Negated, so that a NaN is refused.
  if (!(limit.value >= here.lowest_limit_w && limit.value <= here.highest_limit_w)) {
    return Error::invalid(
        "power limit " + shortest(limit.value) + " W is out of range: " + here.name + " accepts " +
        shortest(here.lowest_limit_w) + " to " + shortest(here.highest_limit_w) + " W");
  }
  return write(gpu, "setting the power limit", [&](SimulatedGpuState& state) {
    double watts = limit.value;
    for (const SimulatedFault& fault : here.faults) {
      if (fault.kind == SimulatedFault::Kind::kLimitRounded &&
          fault.holds(state.time_ns, state.calls)) {
        watts = std::max(here.lowest_limit_w, std::floor(watts / fault.amount) * fault.amount);
      }
    }
    state.limit_w = watts;
    return ok_status();
  });
}

Status SimulationCore::set_persistence(int gpu, bool enabled) {
  return write(gpu, "setting persistence mode", [&](SimulatedGpuState& state) {
    state.persistence = enabled;
    return ok_status();
  });
}

Status SimulationCore::set_load(int gpu, double activity) {
  HARPE_TRY(check(gpu));
  if (!(activity >= 0 && activity <= 1)) return Error::invalid("a load is from 0 to 1");
  update(gpu, [&](SimulatedGpuState& state, WorkTable*) {
    state.load = activity;
    if (activity > 0) note_process(state, getpid());
  });
  return ok_status();
}

Result<std::uint64_t> SimulationCore::launch(int gpu, const SimulatedWork& work, int& stream) {
  const WorkTable table = table_of(work);
  std::uint64_t ticket = 0;
  update(gpu, [&](SimulatedGpuState& state, WorkTable* tables) {
    stream = free_stream(state);
    if (stream < 0) return;
    tables[stream] = table;
    ticket = ++state.tickets;
    state.stream[stream] = {
        SimulatedStream::Phase::kRunning, getpid(), ticket, 1, state.time_ns, 0};
    note_process(state, getpid());
  });
  if (stream >= 0) return ticket;
  return Error::of(ErrorCode::kConflict, "GPU " + std::to_string(gpu) + " already runs " +
                                             std::to_string(kMaxStreams) + " works");
}

Result<Simulation::Span> SimulationCore::run(int gpu, const SimulatedWork& work) {
  HARPE_TRY(check(gpu));
  HARPE_TRY(check_work(work));
  int stream = -1;
  const std::uint64_t ticket = HARPE_TRY(launch(gpu, work, stream));
  while (true) {
    std::int64_t begin = 0, end = 0;
    bool done = false, gone = false, lost = false;
    update(gpu, [&](SimulatedGpuState& state, WorkTable* tables) {
      SimulatedStream& mine = state.stream[stream];
      gone = mine.ticket != ticket;
      lost = is_lost(spec(gpu), state);
      if (lost && !gone) mine.phase = SimulatedStream::Phase::kFree;
      done = !gone && mine.phase == SimulatedStream::Phase::kDone;
      begin = mine.begin_ns;
      if (done) {
        end = mine.end_ns;
        mine.phase = SimulatedStream::Phase::kFree;
      } else if (!gone && !lost) {
        end = predicted_end(spec(gpu), tables, state, stream, state.time_ns + kLookNs);
      }
    });
    if (lost) return Error::of(ErrorCode::kUnavailable, lost_text(gpu, spec(gpu)));
    if (gone) return Error::internal("the state of the simulation was overwritten");
    const std::int64_t epoch = memory_->epoch_ns();
    if (done) return Span{{epoch + begin}, {epoch + end}};
    clock_.sleep_until({epoch + end});
  }
}

SimulatedTruth SimulationCore::truth(int gpu) {
  SimulatedTruth truth;
  if (!check(gpu).ok()) return truth;
  update(gpu, [&](SimulatedGpuState& state, WorkTable* tables) {
    truth.time = {memory_->epoch_ns() + state.time_ns};
    truth.energy = {state.energy_j};
    truth.power = {true_power(spec(gpu), tables, state)};
    truth.clock = {static_cast<int>(std::lround(state.clock_mhz))};
    truth.temperature = state.temperature_c;
  });
  return truth;
}

SimulatedWork SimulationCore::model_work(int gpu, Seconds at_highest, double memory_bound) const {
  const GpuModel& model = spec(gpu).gpu;
  const std::vector<int> clocks = supported_clocks(spec(gpu), ClockDomain::kGraphics);
  const std::size_t stride = (clocks.size() + kMaxWorkPoints - 2) / (kMaxWorkPoints - 1);
  SimulatedWork work;
  work.limit_softness = model.limit_softness;
  const auto add = [&](int clock) {
    const double x = clock / static_cast<double>(model.max_clock.value);
    work.points.push_back({{clock},
                           at_highest * (memory_bound + (1 - memory_bound) / x),
                           {demanded_power(model, x)}});
  };
  for (std::size_t i = 0; i < clocks.size(); i += stride) add(clocks[i]);
  if (work.points.back().clock != model.max_clock) add(model.max_clock.value);
  return work;
}

Seconds SimulationCore::switch_latency(int gpu, Megahertz from, Megahertz to) const {
  return {median_switch_latency(spec(gpu), from.value, to.value)};
}

}  // namespace harpe::device
