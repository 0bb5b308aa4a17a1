#include "harpe/server/server_metrics.h"

#include <array>

#include "harpe/http/http_answers.h"
#include "harpe/http/metrics_text.h"

namespace harpe {
namespace {

using Type = MetricsText::Type;

constexpr std::array kPhases{JobPhase::kRegistering, JobPhase::kProfiling,
                             JobPhase::kCharacterizing, JobPhase::kRunning, JobPhase::kStraggling};

void one(MetricsText& metrics, const std::string& name, Type type, const std::string& help,
         double value) {
  metrics.family("harpe_server_" + name, type, help);
  metrics.sample(value);
}

double count(std::uint64_t number) {
  return static_cast<double>(number);
}

/// What jobs count themselves is summed up anew each time.
void job_families(MetricsText& metrics, const JobRegistry& registry) {
  std::array<std::size_t, kPhases.size()> in_phase{};
  std::size_t ranks = 0, listeners = 0;
  for (const auto& [id, job] : registry.jobs()) {
    ++in_phase[static_cast<std::size_t>(job->job.phase())];
    ranks += static_cast<std::size_t>(job->job.status().ranks_registered);
    for (const auto& listener : job->listeners) listeners += listener.expired() ? 0 : 1;
  }
  metrics.family("harpe_server_jobs", Type::kGauge, "Jobs by phase.");
  for (const JobPhase phase : kPhases) {
    metrics.sample(count(in_phase[static_cast<std::size_t>(phase)]), {{"phase", name_of(phase)}});
  }
  one(metrics, "ranks", Type::kGauge, "Ranks that have registered with jobs.", count(ranks));
  one(metrics, "listeners", Type::kGauge, "Clients that listen to events.", count(listeners));
}

}  // namespace

void handle_server_metrics(ServerContext& context, const HttpRequest& request, const Reply& reply) {
  if (request.method != "GET") return reply(wrong_method("GET"));
  const JobRegistry& registry = context.registry;
  const RegistryCounts& counts = registry.counts();
  MetricsText metrics;
  metrics.family("harpe_server_info", Type::kGauge, "The server; always 1.");
  metrics.sample(1, {{"version", context.options.version}});
  one(metrics, "uptime_seconds", Type::kGauge, "Time since the start.",
      (registry.clock().now() - context.started).value);
  job_families(metrics, registry);
  one(metrics, "http_requests_total", Type::kCounter, "HTTP requests.", count(context.requests));
  metrics.family("harpe_server_http_answers_total", Type::kCounter, "Answers by status.");
  for (const auto& [status, number] : context.answers) {
    metrics.sample(count(number), {{"status", std::to_string(status)}});
  }
  one(metrics, "http_rate_limited_total", Type::kCounter, "Requests refused for being too many.",
      count(context.rate_limited));
  if (context.options.transport) {
    const ServerTransport transport = context.options.transport();
    one(metrics, "http_connections", Type::kGauge, "Open connections.",
        count(transport.connections));
    one(metrics, "http_connections_refused_total", Type::kCounter,
        "Connections refused for being too many.", count(transport.connections_refused));
  }
  one(metrics, "characterizations_total", Type::kCounter, "Jobs whose plans were made.",
      count(counts.characterizations));
  one(metrics, "characterizations_running", Type::kGauge, "Plans being made.",
      count(registry.characterizations_running()));
  one(metrics, "characterizations_waiting", Type::kGauge, "Jobs that wait for a worker.",
      count(registry.characterizations_waiting()));
  one(metrics, "reports_total", Type::kCounter, "Iterations reported by ranks.",
      count(counts.reports));
  one(metrics, "plan_changes_total", Type::kCounter, "Times that orders of a job changed.",
      count(counts.plan_changes));
  one(metrics, "orders_delivered_total", Type::kCounter, "Changed orders handed to listeners.",
      count(counts.deliveries));
  one(metrics, "orders_delivery_seconds_total", Type::kCounter,
      "Time from decision to hand-over, summed over what was delivered.", counts.delivery_seconds);
  one(metrics, "orders_delivery_seconds_max", Type::kGauge, "The longest of those times.",
      counts.slowest_delivery);
  one(metrics, "lease_held", Type::kGauge,
      "Whether this server may command its jobs: 0 while it cannot reach the database that it "
      "shares.",
      registry.holds_lease() ? 1 : 0);
  one(metrics, "saves_total", Type::kCounter, "Transactions of the store.", count(counts.saves));
  one(metrics, "save_failures_total", Type::kCounter, "Transactions that failed.",
      count(counts.save_failures));
  reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.text()});
}

}  // namespace harpe
