#include "harpe/node/agent/http_json.h"

#include <cmath>
#include <utility>

namespace harpe::node {
namespace {

template <class Quantity>
net::OrderedJson value_or_null(const std::optional<Quantity>& quantity) {
  return quantity ? net::OrderedJson(quantity->value) : net::OrderedJson();
}

/// Returns [900, 1410]; [] if the clock is not locked; null if the lock is unknown.
net::OrderedJson lock_json(const std::optional<ClockLock>& lock) {
  if (!lock) return {};
  if (!lock->range) return net::OrderedJson::array();
  return {lock->range->lowest.value, lock->range->highest.value};
}

}  // namespace

std::int64_t milli(double value) {
  return std::llround(value * 1000);
}

net::OrderedJson reading_json(int gpu, const GpuReading& reading) {
  net::OrderedJson json;
  json["gpu"] = gpu;
  json["power_w"] = value_or_null(reading.power);
  json["average_power_w"] = value_or_null(reading.average_power);
  json["energy_j"] = value_or_null(reading.energy);
  json["power_limit_w"] = value_or_null(reading.power_limit);
  json["enforced_power_limit_w"] = value_or_null(reading.enforced_power_limit);
  json["graphics_clock_mhz"] = value_or_null(reading.graphics_clock);
  json["memory_clock_mhz"] = value_or_null(reading.memory_clock);
  json["temperature_c"] =
      reading.temperature ? net::OrderedJson(*reading.temperature) : net::OrderedJson();
  json["utilisation"] =
      reading.utilisation ? net::OrderedJson(*reading.utilisation) : net::OrderedJson();
  json["event_reasons"] =
      reading.reasons ? net::OrderedJson(reading.reasons->text()) : net::OrderedJson();
  json["persistence_mode"] =
      reading.persistence_mode ? net::OrderedJson(*reading.persistence_mode) : net::OrderedJson();
  json["locked_clocks_mhz"] = lock_json(reading.graphics_lock);
  json["locked_memory_clocks_mhz"] = lock_json(reading.memory_lock);
  json["restore_pending"] = reading.restore_pending.empty()
                                ? net::OrderedJson()
                                : net::OrderedJson(reading.restore_pending);
  return json;
}

net::OrderedJson cpu_power_json(const CpuEnergy& before, const CpuEnergy& after, Seconds time) {
  net::OrderedJson json;
  json["cpu_mw"] = milli(((after.package - before.package) / time).value);
  json["dram_mw"] = after.dram && before.dram
                        ? net::OrderedJson(milli(((*after.dram - *before.dram) / time).value))
                        : net::OrderedJson();
  return json;
}

}  // namespace harpe::node
