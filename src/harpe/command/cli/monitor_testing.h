#pragma once
/// \file
/// Measured devices for tests of `harpe monitor`.

#include <string>

#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

/// Returns a device that used 21.5 kJ in a minute.
inline DeviceEnergy measured_device(DeviceEnergy::Kind kind, int index, const std::string& name) {
  return {.kind = kind,
          .index = index,
          .name = name,
          .uuid = {},
          .energy = {.energy = {21534.2},
                     .error = {11.6},
                     .sensor_error = {1076},
                     .time = {60},
                     .source = EnergySource::kCounterAndPower},
          .error = {},
          .reasons = {},
          .processes = {}};
}

}  // namespace harpe::command
