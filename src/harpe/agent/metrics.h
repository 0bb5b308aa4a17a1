#pragma once
/// \file
/// GET /metrics: the node in Prometheus' text format (version 0.0.4). Counters end in `_total`,
/// units are base units, a name has one type. Needs the right to read the node.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harpe/agent/http_api.h"

namespace harpe {

void handle_metrics(ApiContext& context, const HttpRequest& request, const Reply& reply);

/// Writes metrics family by family.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  enum class Type : unsigned char { kCounter, kGauge };

  /// Starts a family, which appears only if a sample follows.
  void family(const std::string& name, Type type, const std::string& help);
  void sample(double value, const Labels& labels = {});

  const std::string& text() const { return text_; }

 private:
  std::string text_, name_, header_;
};

/// What one scrape found.
struct NodeMetrics {
  std::vector<GpuIdentity> gpus;
  std::map<int, GpuReading> readings;  ///< by GPU; one that could not be read is missing
  std::map<int, CpuEnergy> cpus;
  Controller::Counts counts;
  std::size_t leases = 0, listeners = 0;
  std::uint64_t requests = 0;
  TransportCounts transport;
  std::string version;
};
std::string metrics_text(const NodeMetrics& node);

}  // namespace harpe
