#pragma once
/// \file
/// The terms of a job's bill in its specification: price, carbon intensity and the power of the
/// site in addition to its GPUs. They change no plan.
///
///   {"price": "0.10 EUR/kWh", "carbon": "DE", "pue": 1.2, "hours": 720, "host_power": 1000}
///
/// The carbon intensity is a number or a country's yearly mean, never a file, an address or a
/// provider: commands of other users read it.

#include <string>
#include <string_view>

#include "harpe/base/fields.h"
#include "harpe/base/result.h"

namespace harpe::training {

/// Reads terms and returns them on one line, with the members that are given: price (text), carbon
/// (text or g/kWh), pue, hours, host_power (W of a node), gpus_per_node. Errors are added to those
/// of `fields`.
std::string read_cluster_terms(Fields& fields);
/// Parses terms from a text. Returns the same line, or diagnostics with line and column.
Result<std::string> parse_cluster_terms(std::string_view text);

}  // namespace harpe::training
