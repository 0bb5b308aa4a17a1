#pragma once
/// \file
/// Metrics of the node for GET /metrics, in Prometheus' text format (version 0.0.4). Counters end
/// in `_total`, units are base units, a name has one type. Requires the right to read the node.

#include <map>
#include <string>
#include <vector>

#include "harpe/net/service/metrics_text.h"
#include "harpe/node/agent/http_api.h"

namespace harpe::node {

void handle_metrics(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply);

/// The values of one scrape.
struct NodeMetrics {
  std::vector<GpuIdentity> gpus;
  std::map<int, GpuReading> readings;  ///< by GPU, without GPUs that could not be read
  std::map<int, CpuEnergy> cpus;
  Controller::Counts counts;
  std::size_t troubles = 0;
  std::size_t leases = 0, listeners = 0;
  std::uint64_t requests = 0;
  TransportCounts transport;
  std::string version;
};
std::string metrics_text(const NodeMetrics& node);

}  // namespace harpe::node
