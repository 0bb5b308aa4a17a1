#include "harpe/device/hw/sim/simulation_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/base/toml.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {
namespace {

constexpr double kLongest = 1e9;  // seconds: 30 years
enum SpecPurpose : std::uint64_t { kUuidHigh = 101, kUuidLow, kCounterPhase, kSensorPhase, kGain };

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

std::string uuid_of(std::uint64_t seed) {
  const std::uint64_t high = mixed(seed, kUuidHigh, 0), low = mixed(seed, kUuidLow, 0);
  char text[48];
  std::snprintf(text, sizeof text, "GPU-%08x-%04x-%04x-%04x-%012llx",
                static_cast<unsigned>(high >> 32), static_cast<unsigned>(high >> 16) & 0xffff,
                static_cast<unsigned>(high) & 0xffff, static_cast<unsigned>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

std::string pci_of(int index) {
  char text[24];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", 3 * index + 1);
  return text;
}

/// Reader of one [[gpu]] table, which sets the members of a specification.
class GpuReader {
 public:
  GpuReader(const JsonValue& table, Diagnostics& diagnostics)
      : fields_(table, "gpu", diagnostics) {}

  /// Returns the specification and the number of GPUs that have it.
  std::optional<std::pair<SimulatedGpuSpec, int>> read() {
    const std::optional<std::string> model = fields_.text("model");
    const std::optional<SimulatedGpuSpec> found =
        model ? catalogue_gpu(*model) : std::optional<SimulatedGpuSpec>();
    if (!model) {
      fields_.error("model", "a gpu needs a model: " + known());
    } else if (!found) {
      fields_.error("model", find_gpu_model(*model) != nullptr
                                 ? "the GPU " + lower(*model) +
                                       " has a model for synthetic profiles, but no simulation (" +
                                       known() + ")"
                                 : unknown_gpu_model(*model, simulated_gpu_names()));
    }
    spec_ = found.value_or(*catalogue_gpu("a100-sxm"));
    const auto count = fields_.integer("count", 1, kMaxSimulatedGpus);
    if (auto name = fields_.text("name")) spec_.name = name->substr(0, 63);
    // `numbered` appends the number of the GPU.
    if (auto prefix = fields_.text("device_file_prefix")) spec_.device_file = *prefix;
    read_clocks();
    read_power();
    read_heat();
    read_sensors();
    read_latency();
    read_quirks();
    fields_.finish();
    return std::pair{spec_, static_cast<int>(count.value_or(1))};
  }

 private:
  static std::string known() {
    std::string all;
    for (const std::string& name : simulated_gpu_names()) all += (all.empty() ? "" : ", ") + name;
    return "known: " + all;
  }

  void number(std::string_view key, double& place, double lowest, double highest) {
    if (auto value = fields_.number(key, lowest, highest)) place = *value;
  }
  void boolean(std::string_view key, bool& place) {
    if (auto value = fields_.boolean(key)) place = *value;
  }
  void milliseconds(std::string_view key, std::int64_t& place, double lowest, double highest) {
    if (auto value = fields_.number(key, lowest, highest)) place = nanoseconds(*value * 1e-3);
  }
  void integer(std::string_view key, int& place, int lowest, int highest) {
    if (auto value = fields_.integer(key, lowest, highest)) place = static_cast<int>(*value);
  }

  void read_clocks() {
    GpuModel& gpu = spec_.gpu;
    integer("min_clock_mhz", gpu.min_clock.value, 1, 10000);
    integer("max_clock_mhz", gpu.max_clock.value, 2, 10000);
    integer("clock_step_mhz", gpu.clock_step, 1, 1000);
    number("knee", gpu.knee, 0, 0.999);
    number("min_voltage", gpu.min_voltage, 0.1, 1);
    number("memory_bound", gpu.memory_bound, 0, 1);
    if (gpu.min_clock >= gpu.max_clock) {
      fields_.error("max_clock_mhz", "the highest clock must be above the lowest, " +
                                         std::to_string(gpu.min_clock.value) + " MHz");
    } else if ((gpu.max_clock.value - gpu.min_clock.value) % gpu.clock_step != 0) {
      fields_.error("clock_step_mhz",
                    "steps of " + std::to_string(gpu.clock_step) +
                        " MHz do not divide the range from the lowest clock to the highest");
    } else if ((gpu.max_clock.value - gpu.min_clock.value) / gpu.clock_step > 1000) {
      fields_.error("clock_step_mhz", "makes more than 1000 clocks");
    }
    if (const JsonValue* list = fields_.any("memory_clocks_mhz")) read_memory_clocks(*list);
    boolean("memory_lock", spec_.memory_lock);
  }

  void read_memory_clocks(const JsonValue& list) {
    std::vector<int> clocks;
    bool right =
        list.type == JsonValue::Type::kArray && !list.items.empty() && list.items.size() <= 16;
    for (const JsonValue& item : list.items) {
      if (!item.is_integer || item.integer < 1 || item.integer > 100000) {
        right = false;
      } else {
        clocks.push_back(static_cast<int>(item.integer));
      }
    }
    std::sort(clocks.begin(), clocks.end());
    right = right && std::adjacent_find(clocks.begin(), clocks.end()) == clocks.end();
    if (right) {
      spec_.memory_clocks = std::move(clocks);
    } else {
      fields_.error("memory_clocks_mhz", "must be a list of 1 to 16 different whole numbers");
    }
  }

  void read_power() {
    GpuModel& gpu = spec_.gpu;
    number("idle_power_w", spec_.idle_power_w, 0, 10000);
    number("static_power_w", gpu.static_power.value, 0, 10000);
    number("dynamic_power_w", gpu.dynamic_power.value, 0, 10000);
    number("power_limit_w", gpu.power_limit.value, 1, 20000);
    number("limit_softness", gpu.limit_softness, 0, 0.5);
    spec_.highest_limit_w = std::max(spec_.highest_limit_w, gpu.power_limit.value);
    spec_.lowest_limit_w = std::min(spec_.lowest_limit_w, gpu.power_limit.value);
    number("highest_power_limit_w", spec_.highest_limit_w, gpu.power_limit.value, 20000);
    number("lowest_power_limit_w", spec_.lowest_limit_w, 1, gpu.power_limit.value);
    number("other_power_limit_w", spec_.other_limit_w, 1, 20000);
  }

  void read_heat() {
    number("ambient_c", spec_.ambient_c, -40, 120);
    number("kelvin_per_watt", spec_.kelvin_per_watt, 1e-4, 10);
    number("joule_per_kelvin", spec_.joule_per_kelvin, 0.1, 1e6);
    number("leakage", spec_.leakage, 0, 0.1);
    number("reference_c", spec_.reference_c, -40, 150);
    number("slowdown_c", spec_.slowdown_c, 0, 200);
    spec_.hardware_slowdown_c = std::max(spec_.hardware_slowdown_c, spec_.slowdown_c);
    number("hardware_slowdown_c", spec_.hardware_slowdown_c, spec_.slowdown_c, 300);
    const double hottest = std::max(spec_.gpu.static_power.value, spec_.idle_power_w);
    if (spec_.leakage * hottest * spec_.kelvin_per_watt > 0.5) {
      fields_.error("leakage", "is so large that the GPU would heat itself without end");
    }
  }

  void read_sensors() {
    boolean("energy_counter", spec_.has_counter);
    milliseconds("counter_step_ms", spec_.counter_step_ns, 1, 10000);
    spec_.counter_jitter_ns = std::min(spec_.counter_jitter_ns, spec_.counter_step_ns / 100);
    // The limit keeps steps in order.
    milliseconds("counter_jitter_ms", spec_.counter_jitter_ns, 0,
                 static_cast<double>(spec_.counter_step_ns) * 1e-6 / 20);
    milliseconds("sensor_period_ms", spec_.sensor_period_ns, 1, 10000);
    spec_.sensor_window_ns = std::min(spec_.sensor_window_ns, spec_.sensor_period_ns);
    milliseconds("sensor_window_ms", spec_.sensor_window_ns, 0.1,
                 static_cast<double>(spec_.sensor_period_ns) * 1e-6);
    number("noise", spec_.noise, 0, 0.2);
    gain_ = fields_.number("gain", 0.5, 2);
    number("gain_spread", gain_spread_, 0, 0.1);
    boolean("power_usage_is_average", spec_.power_usage_is_average);
  }

  void read_latency() {
    SwitchLatency& latency = spec_.latency;
    const auto in_ms = [&](std::string_view key, double& place, double highest) {
      if (auto value = fields_.number(key, 0, highest)) place = *value * 1e-3;
    };
    in_ms("call_ms", latency.call_s, 10000);
    in_ms("switch_ms", latency.typical_s, 10000);
    number("switch_spread", latency.spread, 0, 2);
    number("slow_target_share", latency.slow_target_share, 0, 1);
    number("slow_target_factor", latency.slow_target_factor, 1, 1000);
    number("slow_pair_share", latency.slow_pair_share, 0, 1);
    in_ms("slow_pair_ms", latency.slow_pair_s, 10000);
  }

  void read_quirks() {
    boolean("mig", spec_.mig);
    if (auto scope = fields_.word("power_scope", {"gpu", "module"})) {
      spec_.module_scope = *scope == 1;
    }
    number("module_power_w", spec_.module_power_w, 0, 10000);
    boolean("fan", spec_.fan);
  }

 public:
  /// Returns the specification with the individual properties of one GPU.
  SimulatedGpuSpec numbered(SimulatedGpuSpec spec, std::uint64_t seed, int index) const {
    spec.seed = mixed(seed, 0, static_cast<std::uint64_t>(index));
    spec.uuid = uuid_of(spec.seed);
    spec.pci = pci_of(index);
    if (!spec.device_file.empty()) spec.device_file += std::to_string(index);
    const auto phase = [&](SpecPurpose purpose, std::int64_t period) {
      return static_cast<std::int64_t>(uniform(mixed(spec.seed, purpose, 0)) *
                                       static_cast<double>(period));
    };
    spec.counter_phase_ns = phase(kCounterPhase, spec.counter_step_ns);
    spec.sensor_phase_ns = phase(kSensorPhase, spec.sensor_period_ns);
    spec.gain = gain_.value_or(1 + gain_spread_ * normal(mixed(spec.seed, kGain, 0)));
    return spec;
  }

 private:
  Fields fields_;
  SimulatedGpuSpec spec_;
  std::optional<double> gain_;
  double gain_spread_ = 0.01;
};

struct FaultWord {
  const char* word;
  SimulatedFault::Kind kind;
  bool by_call;  ///< true if it can begin at a call, not only at a time
};

constexpr std::array<FaultWord, 7> kFaultWords{
    {{"no_permission", SimulatedFault::Kind::kNoPermission, true},
     {"gpu_lost", SimulatedFault::Kind::kGpuLost, true},
     {"limit_rounded", SimulatedFault::Kind::kLimitRounded, true},
     {"counter_wrap", SimulatedFault::Kind::kCounterWrap, false},
     {"counter_reset", SimulatedFault::Kind::kCounterReset, false},
     {"slow_call", SimulatedFault::Kind::kSlowCall, true},
     {"throttling", SimulatedFault::Kind::kThrottling, false}}};

void read_throttling(Fields& fields, SimulatedFault& fault) {
  constexpr std::array<std::uint64_t, 4> kReasons{
      EventReasons::kHardwareSlowdown, EventReasons::kPowerBrake | EventReasons::kHardwareSlowdown,
      EventReasons::kHardwareThermal | EventReasons::kHardwareSlowdown,
      EventReasons::kSoftwareThermal};
  fault.amount = fields.number("clock_share", 0.05, 1).value_or(0.5);
  const auto reason = fields.word(
      "reason", {"hardware_slowdown", "power_brake", "hardware_thermal", "software_thermal"});
  fault.reason = kReasons[reason.value_or(0)];
}

void read_amount(Fields& fields, SimulatedFault& fault) {
  using enum SimulatedFault::Kind;
  switch (fault.kind) {
    case kLimitRounded:
      fault.amount = fields.number("to_multiple_of_w", 0.001, 10000).value_or(25);
      break;
    case kCounterWrap:
      fault.amount = fields.number("every_j", 1, 1e12).value_or(4294967.296);
      break;
    case kSlowCall: {
      fault.amount = fields.number("seconds", 0, 3600).value_or(0.5);
      const auto calls = fields.word("calls", {"all", "reads", "sets"}).value_or(0);
      fault.reads = calls != 2;
      fault.sets = calls != 1;
      break;
    }
    case kThrottling:
      read_throttling(fields, fault);
      break;
    case kNoPermission:
    case kGpuLost:
    case kCounterReset:
      break;
  }
}

/// Reads one [[fault]] and adds it to its GPU, or to all GPUs.
void read_fault(const JsonValue& table, std::vector<SimulatedGpuSpec>& gpus,
                Diagnostics& diagnostics) {
  Fields fields(table, "fault", diagnostics);
  std::vector<std::string> words;
  for (const FaultWord& known : kFaultWords) words.emplace_back(known.word);
  const auto kind = fields.word("kind", words);
  if (!kind && fields.any("kind") == nullptr) fields.error("kind", "a fault needs a kind");
  SimulatedFault fault;
  const FaultWord& known = kFaultWords[kind.value_or(0)];
  fault.kind = known.kind;
  const auto gpu = fields.integer("gpu", 0, static_cast<std::int64_t>(gpus.size()) - 1);
  const auto at = fields.number("at_s", 0, kLongest);
  const auto lasting = fields.number("for_s", 1e-6, kLongest);
  if (at) fault.begin_ns = nanoseconds(*at);
  if (lasting) fault.end_ns = fault.begin_ns + nanoseconds(*lasting);
  const auto after = fields.integer("after_calls", 0, 1'000'000'000'000);
  const auto calls = fields.integer("for_calls", 1, 1'000'000'000'000);
  if (after) fault.first_call = *after + 1;
  if (calls) fault.last_call = std::max<std::int64_t>(fault.first_call - 1, 0) + *calls;
  if (kind && (after || calls) && !known.by_call) {
    fields.error(after ? "after_calls" : "for_calls",
                 std::string(known.word) + " begins at a time (at_s), not at a call");
  }
  if (kind) read_amount(fields, fault);
  fields.finish();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!gpu || *gpu == static_cast<std::int64_t>(i)) gpus[i].faults.push_back(fault);
  }
}

void read_gpus(Fields& fields, std::uint64_t seed, std::vector<SimulatedGpuSpec>& gpus,
               Diagnostics& diagnostics) {
  for (const JsonValue* table : fields.objects("gpu")) {
    GpuReader reader(*table, diagnostics);
    const auto read = reader.read();
    if (!read) continue;
    if (gpus.size() + static_cast<std::size_t>(read->second) > kMaxSimulatedGpus) {
      diagnostics.add(table->line, table->column,
                      "more than " + std::to_string(kMaxSimulatedGpus) + " GPUs");
      return;
    }
    for (int i = 0; i < read->second; ++i) {
      gpus.push_back(reader.numbered(read->first, seed, static_cast<int>(gpus.size())));
    }
  }
}

void read_cpus(Fields& fields, std::vector<SimulatedCpuSpec>& cpus, Diagnostics& diagnostics) {
  for (const JsonValue* table : fields.objects("cpu")) {
    Fields cpu(*table, "cpu", diagnostics);
    SimulatedCpuSpec spec;
    const auto count = cpu.integer("count", 1, 16).value_or(1);
    spec.power_w = cpu.number("power_w", 0, 10000).value_or(spec.power_w);
    spec.dram_w = cpu.number("dram_w", 0, 10000).value_or(spec.dram_w);
    cpu.finish();
    cpus.insert(cpus.end(), static_cast<std::size_t>(count), spec);
  }
}

}  // namespace

Result<SimulationConfig> parse_simulation(std::string_view text, const std::string& file) {
  JsonValue document = HARPE_TRY(parse_toml(text, file));
  Diagnostics diagnostics(file);
  Fields fields(document, "the simulation", diagnostics);
  SimulationConfig config;
  const auto seed = static_cast<std::uint64_t>(
      fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max()).value_or(1));
  const bool only_root = fields.word("set", {"anyone", "root"}).value_or(0) == 1;
  config.shared_by_everyone = fields.word("shared_by", {"user", "everyone"}).value_or(0) == 1;
  if (auto state_file = fields.text("state_file")) {
    config.state_file = *state_file;
    if (!config.state_file.is_absolute()) {
      fields.error("state_file",
                   "must be an absolute path, because programs start in different folders");
    }
  }
  for (const char* table : {"gpu", "cpu", "fault"}) {
    const JsonValue* value = document.find(table);
    if (value == nullptr || value->type != JsonValue::Type::kObject) continue;
    const std::string name(table);
    diagnostics.add(value->key_line > 0 ? value->key_line : value->line,
                    value->key_line > 0 ? value->key_column : value->column,
                    "there may be several: write [[" + name + "]] instead of [" + name + "]");
    return Error::invalid(std::move(diagnostics));
  }
  read_gpus(fields, seed, config.gpus, diagnostics);
  read_cpus(fields, config.cpus, diagnostics);
  for (SimulatedGpuSpec& gpu : config.gpus) gpu.only_root_sets = only_root;
  const std::vector<const JsonValue*> scripted = fields.objects("fault");
  if (config.gpus.empty() && diagnostics.empty()) {
    diagnostics.add(
        "no [[gpu]]: a simulation needs at least one, such as: [[gpu]] model = \"a100-sxm\"");
  }
  if (scripted.size() > 256) {
    fields.error("fault", "more than 256 faults");
  } else if (!config.gpus.empty()) {
    for (const JsonValue* table : scripted) read_fault(*table, config.gpus, diagnostics);
  }
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return config;
}

}  // namespace harpe::device
