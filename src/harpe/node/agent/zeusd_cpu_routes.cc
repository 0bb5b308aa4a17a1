#include "harpe/node/agent/zeusd_cpu_routes.h"

#include <cmath>
#include <utility>

#include "harpe/node/agent/zeusd_responses.h"

namespace harpe {
namespace {

/// A power reading of a CPU is two energy readings this far apart.
constexpr Seconds kCpuWindow{0.1};

/// The CPUs to read among `count`; or what to answer instead.
std::optional<std::vector<int>> cpus_to_read(const ApiContext& context, const HttpQuery& query,
                                             bool is_stream, const Reply& reply) {
  const auto asked = optional_indices(query, "cpu_ids", "CPU");
  if (!asked.ok()) return reply(error_response(400, asked.error().text())), std::nullopt;
  const auto count = static_cast<std::size_t>(context.controller.cpus());
  std::vector<int> cpus = asked->value_or(std::vector<int>());
  if (!*asked) {
    for (std::size_t i = 0; i < count; ++i) cpus.push_back(static_cast<int>(i));
  }
  if (const auto unknown = first_unknown(cpus, count)) {
    reply(is_stream ? unknown_indices("CPU", cpus, count)
                    : error_response(400, "CPU " + std::to_string(*unknown) + " not found"));
    return std::nullopt;
  }
  return cpus;
}

}  // namespace

void get_cpu_energy(ApiContext& context, const HttpRequest& request, const Reply& reply) {
  const Result<HttpQuery> query = HttpQuery::parse(request.query, {"cpu_ids", "cpu", "dram"});
  if (!query.ok()) return reply(bad_query(query.error()));
  const Result<bool> with_cpu = query->boolean("cpu");
  if (!with_cpu.ok()) return reply(bad_query(with_cpu.error()));
  const Result<bool> with_dram = query->boolean("dram");
  if (!with_dram.ok()) return reply(bad_query(with_dram.error()));
  const auto cpus = cpus_to_read(context, *query, false, reply);
  if (!cpus) return;
  read_all<CpuEnergy>(
      *cpus, reply,
      [&](int cpu, Done<CpuEnergy> done) {
        context.controller.read_cpu(request.peer, cpu, std::move(done));
      },
      [cpu = *with_cpu, dram = *with_dram](const std::map<int, CpuEnergy>& energies) {
        OrderedJson document = OrderedJson::object();
        const auto micro = [](Joules energy) { return std::llround(energy.value * 1e6); };
        for (const auto& [index, energy] : energies) {
          OrderedJson& entry = document[std::to_string(index)];
          entry["cpu_energy_uj"] = cpu ? OrderedJson(micro(energy.package)) : OrderedJson();
          entry["dram_energy_uj"] =
              dram && energy.dram ? OrderedJson(micro(*energy.dram)) : OrderedJson();
        }
        return document;
      });
}

void get_cpu_power(ApiContext& context, const HttpRequest& request, const Reply& reply) {
  const Result<HttpQuery> query = HttpQuery::parse(request.query, {"cpu_ids"});
  if (!query.ok()) return reply(bad_query(query.error()));
  const auto cpus = cpus_to_read(context, *query, false, reply);
  if (!cpus) return;
  struct Window {
    Instant begin;
    CpuEnergy before, after;
    Seconds time;
  };
  // The first reading, a pause on the loop, the second reading.
  const auto ask = [&context, peer = request.peer](int cpu, const Done<Window>& done) {
    context.controller.read_cpu(peer, cpu, [&context, peer, cpu, done](Result<CpuEnergy> before) {
      if (!before.ok()) return done(std::move(before).error());
      const Instant begin = context.clock.now();
      context.loop.post([&context, peer, cpu, done, begin, before = *before] {
        context.loop.after(kCpuWindow, [&context, peer, cpu, done, begin, before] {
          context.controller.read_cpu(
              peer, cpu, [&context, done, begin, before](Result<CpuEnergy> after) {
                if (!after.ok()) return done(std::move(after).error());
                done(Window{begin, before, *after, context.clock.now() - begin});
              });
        });
      });
    });
  };
  read_all<Window>(*cpus, reply, ask, [&clock = context.clock](const std::map<int, Window>& all) {
    OrderedJson power = OrderedJson::object();
    for (const auto& [cpu, window] : all) {
      power[std::to_string(cpu)] = cpu_power_json(window.before, window.after, window.time);
    }
    return OrderedJson{{"timestamp_ms", unix_milliseconds(clock.now(), clock)},
                       {"power_mw", std::move(power)}};
  });
}

void stream_cpu_power(ApiContext& context, const HttpRequest& request, const Reply& reply) {
  const Result<HttpQuery> query = HttpQuery::parse(request.query, {"cpu_ids"});
  if (!query.ok()) return reply(bad_query(query.error()));
  const auto cpus = cpus_to_read(context, *query, true, reply);
  if (!cpus) return;
  if (!context.controller.policy().may_read_node(request.peer)) {
    return reply(error_response(403, "the agent's policy does not let you read the CPUs' energy"));
  }
  auto stream = context.power.cpus(*cpus, request);
  if (!stream.ok()) return reply(error_response(503, stream.error().text()));
  reply(event_stream(*std::move(stream)));
}

}  // namespace harpe
