// Harpe's own routes, under /v1, and /health: leases, settings, readings, power streams.
// JSON in the body; docs/agent.md has an example of each.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/http_json.h"

namespace harpe::node {
namespace {

/// A body such as {"gpus": [0], "lock_clocks_mhz": [900, 1200]}: the GPUs and exactly one of
/// lock_clocks_mhz, lock_memory_clocks_mhz, reset_clocks, reset_memory_clocks, power_limit_w,
/// reset_power_limit, persistence_mode.
struct SettingBody {
  std::vector<int> gpus;
  Setting setting;
};

constexpr double kLongestDuration = 365.0 * 24 * 3600;
constexpr double kMostWatts = 100'000;
constexpr std::size_t kMostLeasedGpus = 1024;
constexpr std::size_t kLongestLeaseName = 128;

/// Runs `read(fields, diagnostics, object)` over the object in `body`.
template <class Value, class Read>
Result<Value> read_body(std::string_view body, Read read) {
  JsonValue document = HARPE_TRY(parse_json(body.empty() ? "{}" : body, "body"));
  if (document.type != JsonValue::Type::kObject) return Error::invalid("body: expected an object");
  Diagnostics diagnostics("body");
  Fields fields(document, "the body", diagnostics);
  Value value = read(fields, diagnostics, document);
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return value;
}

std::vector<int> read_gpus(Fields& fields) {
  std::vector<int> gpus;
  const JsonValue* list = fields.any("gpus");
  if (list == nullptr || list->type != JsonValue::Type::kArray || list->items.empty() ||
      list->items.size() > kMostLeasedGpus) {
    fields.error("gpus", "expected a list of GPU indices such as \"gpus\": [0, 1]");
    return gpus;
  }
  for (const JsonValue& item : list->items) {
    if (!item.is_integer || item.integer < 0 || item.integer > 1'000'000) {
      fields.error("gpus", "a GPU index is a whole number from 0");
      return gpus;
    }
    gpus.push_back(static_cast<int>(item.integer));
  }
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  return gpus;
}

Seconds read_duration(Fields& fields, bool needed) {
  const auto duration = fields.number("duration_s", 0.001, kLongestDuration);
  if (!duration && needed && fields.any("duration_s") == nullptr) {
    fields.error("duration_s", "is missing");
  }
  return Seconds{duration.value_or(60)};
}

Controls read_controls(Fields& fields) {
  const JsonValue* list = fields.any("controls");
  if (list == nullptr) return {};
  Controls controls = Controls::none();
  if (list->type == JsonValue::Type::kArray) {
    for (const JsonValue& item : list->items) {
      const auto control = control_named(item.string);
      if (!control) {
        controls = Controls::none();
        break;
      }
      controls.add({*control});
    }
  }
  if (controls.empty()) {
    fields.error("controls",
                 "expected a list of clocks, memory_clocks, power_limit, persistence_mode");
  }
  return controls;
}

std::optional<Setting> read_clock_lock(Fields& fields, const char* key, ClockDomain domain) {
  const auto range = fields.range(key, 0, kHighestClock);
  if (!range) return std::nullopt;
  return Setting{.kind = Setting::Kind::kLockClocks,
                 .domain = domain,
                 .clocks = {{static_cast<int>(range->first)}, {static_cast<int>(range->second)}}};
}

std::optional<Setting> read_reset(Fields& fields, const char* key, Setting setting) {
  const auto reset = fields.boolean(key);
  if (!reset) return std::nullopt;
  if (!*reset) fields.error(key, "must be true");
  return setting;
}

/// {"gpus": [0, 1], "duration_s": 60, "ends_with_process": true, "name": "train.py",
///  "controls": ["clocks", "memory_clocks", "power_limit", "persistence_mode"]}
Result<LeaseRequest> parse_lease_body(std::string_view body) {
  return read_body<LeaseRequest>(body, [](Fields& fields, Diagnostics&, const JsonValue&) {
    LeaseRequest request;
    request.gpus = read_gpus(fields);
    request.duration = read_duration(fields, false);
    request.ends_with_process = fields.boolean("ends_with_process").value_or(true);
    request.controls = read_controls(fields);
    request.name = fields.text("name").value_or("");
    if (request.name.size() > kLongestLeaseName) {
      fields.error("name", "a name has at most " + std::to_string(kLongestLeaseName) + " bytes");
    }
    return request;
  });
}

/// Parses {"duration_s": 60}.
Result<Seconds> parse_renew_body(std::string_view body) {
  return read_body<Seconds>(body, [](Fields& fields, Diagnostics&, const JsonValue&) {
    return read_duration(fields, true);
  });
}

Result<SettingBody> parse_setting_body(std::string_view body) {
  return read_body<SettingBody>(
      body, [](Fields& fields, Diagnostics& diagnostics, const JsonValue& object) {
        SettingBody read;
        read.gpus = read_gpus(fields);
        const std::size_t errors_before = diagnostics.count();
        std::vector<std::optional<Setting>> found;
        found.push_back(read_clock_lock(fields, "lock_clocks_mhz", ClockDomain::kGraphics));
        found.push_back(read_clock_lock(fields, "lock_memory_clocks_mhz", ClockDomain::kMemory));
        found.push_back(
            read_reset(fields, "reset_clocks",
                       {.kind = Setting::Kind::kResetClocks, .domain = ClockDomain::kGraphics}));
        found.push_back(
            read_reset(fields, "reset_memory_clocks",
                       {.kind = Setting::Kind::kResetClocks, .domain = ClockDomain::kMemory}));
        found.push_back(
            read_reset(fields, "reset_power_limit", {.kind = Setting::Kind::kResetPowerLimit}));
        if (const auto watts = fields.number("power_limit_w", 0, kMostWatts)) {
          found.emplace_back(Setting{.kind = Setting::Kind::kPowerLimit, .limit = Watts{*watts}});
        }
        if (const auto enabled = fields.boolean("persistence_mode")) {
          found.emplace_back(Setting{.kind = Setting::Kind::kPersistenceMode, .enabled = *enabled});
        }
        std::erase_if(found, [](const auto& setting) { return !setting; });
        if (found.size() == 1) {
          read.setting = *found.front();
        } else if (diagnostics.count() == errors_before) {
          diagnostics.add(object.line, object.column,
                          "expected exactly one of lock_clocks_mhz, lock_memory_clocks_mhz, "
                          "reset_clocks, reset_memory_clocks, power_limit_w, reset_power_limit, "
                          "persistence_mode");
        }
        return read;
      });
}

constexpr std::string_view kLeases = "/v1/leases";
constexpr std::string_view kGpus = "/v1/gpus";

net::HttpResponse not_found(const std::string& what) {
  return net::native_error(404, "not_found", what);
}

net::OrderedJson lease_json(const Lease& lease) {
  return {{"id", lease.id.empty() ? net::OrderedJson() : net::OrderedJson(lease.id)},
          {"gpus", lease.gpus},
          {"uid", lease.uid},
          {"pid", lease.pid},
          {"name", lease.name},
          {"controls", names_of(lease.controls)},
          {"expires_in_s", lease.expires_in.value}};
}

/// Returns the ranges of a clock or limit as [lowest, highest] pairs; empty if there are none.
template <class Ranges>
net::OrderedJson ranges_json(const Ranges& ranges) {
  net::OrderedJson list = net::OrderedJson::array();
  for (const auto& range : ranges) list.push_back({range.lowest.value, range.highest.value});
  return list;
}

/// Returns the holders of a GPU for other clients: without lease ids and GPUs.
net::OrderedJson holders_json(const std::vector<Lease>& leases) {
  net::OrderedJson list = net::OrderedJson::array();
  for (const Lease& lease : leases) {
    net::OrderedJson& holder = list.emplace_back(lease_json(lease));
    holder.erase("id");
    holder.erase("gpus");
  }
  return list;
}

net::OrderedJson gpu_json(const GpuIdentity& gpu, const Allowance& may,
                          const std::vector<Lease>& holders) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"pci_address", gpu.pci},
          {"backend", gpu.backend},
          {"is_mig", gpu.is_mig},
          {"may",
           {{"read", may.read},
            {"clocks_mhz", ranges_json(may.clocks)},
            {"memory_clocks_mhz", ranges_json(may.memory_clocks)},
            {"power_limit_w", ranges_json(may.power_limits)},
            {"persistence_mode", may.persistence_mode},
            {"max_lease_s", may.max_lease.value}}},
          {"held_by", holders_json(holders)}};
}

// --- Leases -------------------------------------------------------------------------------------

void take_lease(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<LeaseRequest> wanted = parse_lease_body(request.body);
  if (!wanted.ok()) return reply(net::native_error(wanted.error()));
  const Result<Lease> lease = context.controller.take(request.peer, *wanted);
  if (!lease.ok()) return reply(net::native_error(lease.error()));
  reply(net::json_response(201, lease_json(*lease)));
}

void list_leases(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  net::OrderedJson list = net::OrderedJson::array();
  for (const Lease& lease : context.controller.leases(request.peer)) {
    list.push_back(lease_json(lease));
  }
  reply(net::json_response(200, {{"leases", std::move(list)}}));
}

void renew_lease(ApiContext& context, const net::HttpRequest& request, const std::string& id,
                 const net::Reply& reply) {
  const Result<Seconds> duration = parse_renew_body(request.body);
  if (!duration.ok()) return reply(net::native_error(duration.error()));
  const Status renewed = context.controller.renew(request.peer, id, *duration);
  if (!renewed.ok()) return reply(net::native_error(renewed.error()));
  // The policy can grant less than requested.
  Seconds granted = *duration;
  for (const Lease& lease : context.controller.leases(request.peer)) {
    if (lease.id == id) granted = lease.expires_in;
  }
  reply(net::json_response(200, {{"id", id}, {"expires_in_s", granted.value}}));
}

void release_lease(ApiContext& context, const net::HttpRequest& request, const std::string& id,
                   const net::Reply& reply) {
  context.controller.release(request.peer, id, [reply](const Status& released) {
    reply(released.ok() ? net::json_response(200, {{"released", true}})
                        : net::native_error(released.error()));
  });
}

net::OrderedJson applied_json(const Applied& applied, bool dry_run) {
  net::OrderedJson json{{"text", applied.text}, {"honoured", applied.honoured}};
  if (dry_run) json["dry_run"] = true;
  if (applied.limit) json["power_limit_w"] = applied.limit->value;
  if (applied.clocks) {
    json["clocks_mhz"] = {applied.clocks->lowest.value, applied.clocks->highest.value};
  }
  if (applied.clock) json["clock_mhz"] = applied.clock->value;
  return json;
}

void apply_setting(ApiContext& context, const net::HttpRequest& request, const std::string& id,
                   const net::Reply& reply) {
  const Result<SettingBody> body = parse_setting_body(request.body);
  if (!body.ok()) return reply(net::native_error(body.error()));
  const auto gather = Gather<Applied>::of(
      body->gpus.size(),
      [reply, dry_run = context.options.dry_run](const Gather<Applied>::Results& results) {
        net::OrderedJson applied = net::OrderedJson::object();
        net::OrderedJson errors = net::OrderedJson::object();
        int status = 200;
        for (const auto& [gpu, result] : results) {
          if (result.ok()) {
            applied[std::to_string(gpu)] = applied_json(*result, dry_run);
          } else {
            errors[std::to_string(gpu)] = {{"code", name_of(result.error().code)},
                                           {"message", result.error().text()}};
            status = std::max(status, net::http_status(result.error().code));
          }
        }
        net::OrderedJson document{{"applied", std::move(applied)}};
        if (status != 200) document["errors"] = std::move(errors);
        reply(net::json_response(status, document));
      });
  for (const int gpu : body->gpus) {
    context.controller.apply(request.peer, id, gpu, body->setting, gather->slot(gpu));
  }
}

void handle_leases(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  const std::string& path = request.path;
  if (path == kLeases) {
    if (request.method == "GET") return list_leases(context, request, reply);
    if (request.method == "POST") return take_lease(context, request, reply);
    return reply(net::wrong_method("GET, POST"));
  }
  const std::string rest = path.substr(kLeases.size() + 1);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string id = rest.substr(0, slash);
  const std::string verb = rest.substr(slash);
  if (verb.empty()) {
    if (request.method == "DELETE") return release_lease(context, request, id, reply);
    return reply(net::wrong_method("DELETE"));
  }
  if (verb != "/renew" && verb != "/settings") return reply(not_found("no such route: " + verb));
  if (request.method != "POST") return reply(net::wrong_method("POST"));
  verb == "/renew" ? renew_lease(context, request, id, reply)
                   : apply_setting(context, request, id, reply);
}

// --- Devices ------------------------------------------------------------------------------------

void list_gpus(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  net::OrderedJson list = net::OrderedJson::array();
  for (const GpuIdentity& gpu : context.controller.gpus()) {
    list.push_back(gpu_json(gpu, context.controller.allowance(request.peer, gpu.index),
                            context.controller.holders(request.peer, gpu.index)));
  }
  reply(net::json_response(200, {{"gpus", std::move(list)}}));
}

void read_gpu(ApiContext& context, const net::HttpRequest& request, int gpu,
              const net::Reply& reply) {
  context.controller.read(request.peer, gpu,
                          [gpu, reply, &clock = context.clock](Result<GpuReading> reading) {
                            if (!reading.ok()) return reply(net::native_error(reading.error()));
                            net::OrderedJson document = reading_json(gpu, *reading);
                            document["timestamp_ms"] = unix_milliseconds(reading->time, clock);
                            reply(net::json_response(200, document));
                          });
}

void read_limits(ApiContext& context, const net::HttpRequest& request, int gpu,
                 const net::Reply& reply) {
  context.controller.power_limit_range(
      request.peer, gpu, [gpu, reply](Result<PowerLimitRange> range) {
        if (!range.ok()) return reply(net::native_error(range.error()));
        reply(net::json_response(200, {{"gpu", gpu},
                                       {"lowest_w", range->lowest.value},
                                       {"highest_w", range->highest.value},
                                       {"factory_w", range->factory.value}}));
      });
}

void read_clocks(ApiContext& context, const net::HttpRequest& request, int gpu, ClockDomain domain,
                 const net::Reply& reply) {
  context.controller.supported_clocks(
      request.peer, gpu, domain, [gpu, domain, reply](Result<std::vector<Megahertz>> clocks) {
        if (!clocks.ok()) return reply(net::native_error(clocks.error()));
        net::OrderedJson list = net::OrderedJson::array();
        for (const Megahertz clock : *clocks) list.push_back(clock.value);
        reply(net::json_response(
            200, {{"gpu", gpu},
                  {"domain", domain == ClockDomain::kGraphics ? "graphics" : "memory"},
                  {"clocks_mhz", std::move(list)}}));
      });
}

/// Handles /v1/gpus, /v1/gpus/0, /v1/gpus/0/power_limits, /v1/gpus/0/clocks and
/// /v1/gpus/0/memory_clocks.
void handle_gpus(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  if (request.method != "GET") return reply(net::wrong_method("GET"));
  if (request.path == kGpus) return list_gpus(context, request, reply);
  const std::string rest = request.path.substr(kGpus.size() + 1);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const auto index = parse_integer(rest.substr(0, slash));
  if (!index || *index < 0 ||
      static_cast<std::size_t>(*index) >= context.controller.gpus().size()) {
    return reply(not_found("there is no GPU " + in_quotes(rest.substr(0, slash)) +
                           "; this machine has " +
                           std::to_string(context.controller.gpus().size())));
  }
  const int gpu = static_cast<int>(*index);
  const std::string verb = rest.substr(slash);
  if (verb.empty()) return read_gpu(context, request, gpu, reply);
  if (verb == "/power_limits") return read_limits(context, request, gpu, reply);
  if (verb == "/clocks") return read_clocks(context, request, gpu, ClockDomain::kGraphics, reply);
  if (verb == "/memory_clocks")
    return read_clocks(context, request, gpu, ClockDomain::kMemory, reply);
  reply(not_found("no such route: " + verb));
}

void read_cpus(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  if (request.method != "GET") return reply(net::wrong_method("GET"));
  const int count = context.controller.cpus();
  if (count == 0) return reply(net::json_response(200, {{"cpus", net::OrderedJson::array()}}));
  const auto gather = Gather<CpuEnergy>::of(
      static_cast<std::size_t>(count), [reply](const Gather<CpuEnergy>::Results& results) {
        net::OrderedJson list = net::OrderedJson::array();
        for (const auto& [cpu, energy] : results) {
          if (!energy.ok()) return reply(net::native_error(energy.error()));
          list.push_back({{"cpu", cpu},
                          {"package_energy_j", energy->package.value},
                          {"dram_energy_j", energy->dram ? net::OrderedJson(energy->dram->value)
                                                         : net::OrderedJson()}});
        }
        reply(net::json_response(200, {{"cpus", std::move(list)}}));
      });
  for (int cpu = 0; cpu < count; ++cpu) {
    context.controller.read_cpu(request.peer, cpu, gather->slot(cpu));
  }
}

void stream_power(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  if (request.method != "GET") return reply(net::wrong_method("GET"));
  const Result<net::HttpQuery> query = net::HttpQuery::parse(request.query, {"gpus"});
  if (!query.ok()) return reply(net::native_error(query.error()));
  std::optional<std::vector<int>> asked;
  if (const auto text = query->find("gpus")) {
    Result<std::vector<int>> indices = net::parse_index_list(*text, "GPU", "gpus");
    if (!indices.ok()) return reply(net::native_error(indices.error()));
    asked = *std::move(indices);
  }
  const Result<std::vector<int>> gpus = readable_gpus(context.controller, request.peer, asked);
  if (!gpus.ok()) return reply(net::native_error(gpus.error()));
  for (const int gpu : *gpus) {
    if (static_cast<std::size_t>(gpu) >= context.controller.gpus().size()) {
      return reply(not_found("there is no GPU " + std::to_string(gpu)));
    }
    if (!context.controller.allowance(request.peer, gpu).read) {
      return reply(net::native_error(
          403, "no_permission",
          "the agent's policy does not allow you to read GPU " + std::to_string(gpu)));
    }
  }
  auto stream = context.power.gpus(*gpus, PowerStream::Format::kNative, request);
  if (!stream.ok()) return reply(net::native_error(stream.error()));
  reply({.content_type = "text/event-stream",
         .headers = {{"Cache-Control", "no-cache"}},
         .stream = *std::move(stream)});
}

void health(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  if (request.method != "GET") return reply(net::wrong_method("GET"));
  const std::vector<std::string> troubles = context.controller.troubles();
  reply(net::json_response(200, {{"status", troubles.empty() ? "ok" : "degraded"},
                                 {"troubles", troubles},
                                 {"version", context.options.version},
                                 {"gpus", context.controller.gpus().size()},
                                 {"cpus", context.controller.cpus()},
                                 {"dry_run", context.options.dry_run},
                                 {"restore_failures", context.controller.counts().restore_failures},
                                 {"uptime_s", (context.clock.now() - context.started).value}}));
}

bool is_below(const std::string& path, std::string_view root) {
  return path == root || (path.starts_with(root) && path[root.size()] == '/');
}

}  // namespace

bool handle_native(ApiContext& context, net::HttpRequest& request, net::Reply& reply) {
  if (request.path == "/health") return health(context, request, reply), true;
  if (is_below(request.path, kLeases)) return handle_leases(context, request, reply), true;
  if (is_below(request.path, kGpus)) return handle_gpus(context, request, reply), true;
  if (request.path == "/v1/cpus") return read_cpus(context, request, reply), true;
  if (request.path == "/v1/power/stream") return stream_power(context, request, reply), true;
  return false;
}

}  // namespace harpe::node
