#include "harpe/node/agent/metrics.h"

#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/node/agent/http_json.h"

namespace harpe::node {
namespace {

using MetricType = net::MetricsText::Type;

/// Longest wait for the slowest device; scrapers usually wait ten seconds.
constexpr Seconds kScrapePatience{5};

/// Adds a family with a sample for each GPU that reports the value.
template <class Value>
void gpu_family(net::MetricsText& metrics, const NodeMetrics& node, const std::string& name,
                MetricType type, const std::string& help, Value value) {
  metrics.family(name, type, help);
  for (const auto& [gpu, reading] : node.readings) {
    const std::optional<double> number = value(reading);
    if (number) {
      metrics.sample(*number, {{"gpu", std::to_string(gpu)}, {"uuid", node.gpus[gpu].uuid}});
    }
  }
}

template <class T>
std::optional<double> number_of(const std::optional<T>& quantity, double unit = 1) {
  if (!quantity) return std::nullopt;
  return static_cast<double>(quantity->value) * unit;
}

void gpu_families(net::MetricsText& metrics, const NodeMetrics& node) {
  metrics.family("harpe_gpu_info", MetricType::kGauge, "A GPU of this node; always 1.");
  for (const GpuIdentity& gpu : node.gpus) {
    metrics.sample(1, {{"gpu", std::to_string(gpu.index)},
                       {"uuid", gpu.uuid},
                       {"pci_address", gpu.pci},
                       {"name", gpu.name},
                       {"backend", gpu.backend}});
  }
  metrics.family("harpe_gpu_up", MetricType::kGauge, "Whether the GPU could be read.");
  for (const GpuIdentity& gpu : node.gpus) {
    metrics.sample(node.readings.contains(gpu.index) ? 1 : 0,
                   {{"gpu", std::to_string(gpu.index)}, {"uuid", gpu.uuid}});
  }
  gpu_family(metrics, node, "harpe_gpu_energy_joules_total", MetricType::kCounter,
             "Energy that the GPU used since its driver was loaded.",
             [](const GpuReading& r) { return number_of(r.energy); });
  gpu_family(metrics, node, "harpe_gpu_power_watts", MetricType::kGauge, "Power now.",
             [](const GpuReading& r) { return number_of(r.power); });
  gpu_family(metrics, node, "harpe_gpu_average_power_watts", MetricType::kGauge,
             "Power over about the last second.",
             [](const GpuReading& r) { return number_of(r.average_power); });
  gpu_family(metrics, node, "harpe_gpu_power_limit_watts", MetricType::kGauge,
             "Power limit as set.", [](const GpuReading& r) { return number_of(r.power_limit); });
  gpu_family(metrics, node, "harpe_gpu_enforced_power_limit_watts", MetricType::kGauge,
             "The least of all power limits in force.",
             [](const GpuReading& r) { return number_of(r.enforced_power_limit); });
  gpu_family(metrics, node, "harpe_gpu_graphics_clock_hertz", MetricType::kGauge,
             "Graphics clock now.",
             [](const GpuReading& r) { return number_of(r.graphics_clock, 1e6); });
  gpu_family(metrics, node, "harpe_gpu_memory_clock_hertz", MetricType::kGauge, "Memory clock now.",
             [](const GpuReading& r) { return number_of(r.memory_clock, 1e6); });
  gpu_family(metrics, node, "harpe_gpu_temperature_celsius", MetricType::kGauge, "Temperature.",
             [](const GpuReading& r) { return r.temperature; });
  gpu_family(metrics, node, "harpe_gpu_utilisation_ratio", MetricType::kGauge,
             "Share of recent time with work on the GPU.",
             [](const GpuReading& r) { return r.utilisation; });
  gpu_family(metrics, node, "harpe_gpu_throttled", MetricType::kGauge,
             "Whether power or heat reduces the clock.",
             [](const GpuReading& r) -> std::optional<double> {
               if (!r.reasons) return std::nullopt;
               return r.reasons->throttled() ? 1 : 0;
             });
}

void cpu_families(net::MetricsText& metrics, const NodeMetrics& node) {
  metrics.family("harpe_cpu_package_energy_joules_total", MetricType::kCounter,
                 "Energy of a CPU package since the agent started.");
  for (const auto& [cpu, energy] : node.cpus) {
    metrics.sample(energy.package.value, {{"cpu", std::to_string(cpu)}});
  }
  metrics.family("harpe_cpu_dram_energy_joules_total", MetricType::kCounter,
                 "Energy of a CPU package's memory since the agent started.");
  for (const auto& [cpu, energy] : node.cpus) {
    if (energy.dram) metrics.sample(energy.dram->value, {{"cpu", std::to_string(cpu)}});
  }
}

void agent_families(net::MetricsText& metrics, const NodeMetrics& node) {
  const auto one = [&metrics](const std::string& name, MetricType type, const std::string& help,
                              double value) {
    metrics.family("harpe_agent_" + name, type, help);
    metrics.sample(value);
  };
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  const Controller::Counts& counts = node.counts;
  metrics.family("harpe_agent_info", MetricType::kGauge, "The agent; always 1.");
  metrics.sample(1, {{"version", node.version}});
  one("leases", MetricType::kGauge, "Leases now.", count(node.leases));
  one("leases_taken_total", MetricType::kCounter, "Leases taken.", count(counts.leases_taken));
  one("leases_expired_total", MetricType::kCounter, "Leases that expired.",
      count(counts.leases_expired));
  one("leases_lost_with_process_total", MetricType::kCounter, "Leases whose process ended.",
      count(counts.leases_lost_with_process));
  one("settings_applied_total", MetricType::kCounter, "Settings that were applied.",
      count(counts.settings_applied));
  one("settings_refused_total", MetricType::kCounter,
      "Settings that the policy or a lease forbade.", count(counts.settings_refused));
  one("settings_failed_total", MetricType::kCounter, "Settings that a driver refused.",
      count(counts.settings_failed));
  one("clock_commands_total", MetricType::kCounter, "Clock commands received on clock channels.",
      count(counts.clock_commands));
  one("clock_commands_coalesced_total", MetricType::kCounter,
      "Clock commands that a newer one replaced.", count(counts.clock_commands_coalesced));
  one("restores_total", MetricType::kCounter, "Times a GPU was restored.", count(counts.restores));
  one("restore_failures_total", MetricType::kCounter, "Failed attempts to restore a GPU.",
      count(counts.restore_failures));
  one("degraded", MetricType::kGauge, "Whether the agent has a problem (/health states which).",
      node.troubles > 0 ? 1 : 0);
  one("refusals_total", MetricType::kCounter,
      "Leases and settings refused, each in the audit log or counted there.",
      count(counts.refusals));
  one("audit_lines_lost_total", MetricType::kCounter,
      "Lines that could not be written to the audit log.", count(counts.audit_lines_lost));
  one("http_requests_total", MetricType::kCounter, "HTTP requests.", count(node.requests));
  one("http_connections", MetricType::kGauge, "Open connections.",
      count(node.transport.connections));
  one("http_connections_refused_total", MetricType::kCounter, "Connections over a limit.",
      count(node.transport.connections_refused));
  one("http_buffered_bytes", MetricType::kGauge,
      "Bytes of requests and answers that connections hold.", count(node.transport.buffered));
  one("power_listeners", MetricType::kGauge, "Open power streams.", count(node.listeners));
}

/// A collector of readings from the threads of many devices that then writes the page.
struct Scrape {
  Scrape(NodeMetrics known, std::size_t devices, net::Reply response)
      : node(std::move(known)), missing(devices), reply(std::move(response)) {}

  Mutex mutex;
  NodeMetrics node HARPE_GUARDED_BY(mutex);
  std::size_t missing HARPE_GUARDED_BY(mutex) = 0;
  const net::Reply reply;

  void done(const std::function<void(NodeMetrics&)>& put) {
    NodeMetrics all;
    {
      const MutexLock lock(mutex);
      if (missing == 0) return;
      put(node);
      if (--missing > 0) return;
      all = std::move(node);
    }
    finish(all);
  }

  /// Replies with the readings so far; a device that hangs is shown as not up.
  void give_up() {
    NodeMetrics all;
    {
      const MutexLock lock(mutex);
      if (std::exchange(missing, 0) == 0) return;
      all = std::move(node);
    }
    finish(all);
  }

  void finish(const NodeMetrics& all) const {
    reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_text(all)});
  }
};

}  // namespace

std::string metrics_text(const NodeMetrics& node) {
  net::MetricsText metrics;
  gpu_families(metrics, node);
  cpu_families(metrics, node);
  agent_families(metrics, node);
  return metrics.text();
}

void handle_metrics(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  if (request.method != "GET") return reply(net::error_response(405, "use GET"));
  Controller& controller = context.controller;
  if (!controller.policy().may_read_node(request.peer)) {
    return reply(net::error_response(
        403,
        "the agent's policy does not allow you to read the node (read = true for gpus = [\"*\"])"));
  }
  NodeMetrics known;
  known.gpus = controller.gpus();
  known.counts = controller.counts();
  known.troubles = controller.troubles().size();
  known.leases = controller.leases({.uid = 0}).size();
  known.listeners = context.power.listeners();
  known.requests = context.requests;
  known.version = context.options.version;
  if (context.options.transport) known.transport = context.options.transport();
  const auto scrape = std::make_shared<Scrape>(
      std::move(known), controller.gpus().size() + static_cast<std::size_t>(controller.cpus()) + 1,
      reply);
  for (const GpuIdentity& gpu : controller.gpus()) {
    controller.read(request.peer, gpu.index,
                    [scrape, index = gpu.index](Result<GpuReading> reading) {
                      scrape->done([&](NodeMetrics& node) {
                        if (reading.ok()) node.readings.emplace(index, *reading);
                      });
                    });
  }
  for (int cpu = 0; cpu < controller.cpus(); ++cpu) {
    controller.read_cpu(request.peer, cpu, [scrape, cpu](Result<CpuEnergy> energy) {
      scrape->done([&](NodeMetrics& node) {
        if (energy.ok()) node.cpus.emplace(cpu, *energy);
      });
    });
  }
  scrape->done([](NodeMetrics&) {});
  context.loop.after(kScrapePatience, [scrape] { scrape->give_up(); });
}

}  // namespace harpe::node
