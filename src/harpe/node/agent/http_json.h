#pragma once
/// \file
/// Readings of devices in JSON. Only for `.cc` files.

#include <cstdint>
#include <nlohmann/json.hpp>

#include "harpe/net/http/http_responses.h"
#include "harpe/node/agent/controller.h"

namespace harpe::node {

/// Thousandths, rounded.
std::int64_t milli(double value);

/// A reading with Harpe's names: seconds, joules, watts, megahertz; null is what could not be read.
net::OrderedJson reading_json(int gpu, const GpuReading& reading);
/// {"cpu_mw": ..., "dram_mw": ...} between two readings.
net::OrderedJson cpu_power_json(const CpuEnergy& before, const CpuEnergy& after, Seconds time);

}  // namespace harpe::node
