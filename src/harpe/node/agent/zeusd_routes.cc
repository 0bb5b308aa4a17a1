// The routes of zeusd, the daemon of Zeus, so that its clients work with the agent unchanged: same
// paths, parameters, status codes and bodies. The routes use leases: the first setting acquires a
// lease of the GPU for the client's process; when the process ends, earlier settings are restored.
//
// Beyond zeusd: the status is 409 if another process holds the GPU, and 403 if the policy forbids
// the request; power streams begin with the present value and have heartbeat comments.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/net/http/http_query.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/http_json.h"

namespace harpe::node {
namespace {

int zeusd_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoPermission:
      return 403;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kInfeasible:
    case ErrorCode::kNotFound:
    case ErrorCode::kNotSupported:
    case ErrorCode::kRefused:
      return 400;
    case ErrorCode::kConflict:
      return 409;
    default:
      return 500;
  }
}

/// Errors of several devices: all their texts, and the largest status.
class DeviceErrors {
 public:
  void add(int device, const Error& error) {
    std::string& text = texts_[device];
    if (!text.empty()) text += "; ";
    text += error.text();
    status_ = std::max(status_, zeusd_status(error.code));
  }

  bool empty() const { return texts_.empty(); }

  net::HttpResponse response() const {
    net::OrderedJson errors = net::OrderedJson::object();
    for (const auto& [device, text] : texts_) errors[std::to_string(device)] = text;
    return net::json_response(status_, {{"errors", std::move(errors)}});
  }

 private:
  std::map<int, std::string> texts_;
  int status_ = 0;
};

/// Requests a value of each device. Replies with `entry(value)` by the device's index, or with the
/// errors of all devices that failed.
template <class T, class Ask, class Entry>
void read_all(const std::vector<int>& devices, const net::Reply& reply, const Ask& ask,
              Entry entry) {
  if (devices.empty()) return reply(net::json_response(200, net::OrderedJson::object()));
  const auto gather =
      Gather<T>::of(devices.size(), [reply, entry](const typename Gather<T>::Results& results) {
        DeviceErrors errors;
        net::OrderedJson document = net::OrderedJson::object();
        for (const auto& [device, result] : results) {
          if (result.ok()) {
            document[std::to_string(device)] = entry(*result);
          } else {
            errors.add(device, result.error());
          }
        }
        reply(errors.empty() ? net::json_response(200, document) : errors.response());
      });
  for (const int device : devices) ask(device, gather->slot(device));
}

/// Returns a reply that adds the time before the powers.
net::Reply with_time(const net::Reply& reply, Clock& clock) {
  return [reply, &clock](net::HttpResponse response) {
    if (response.status == 200) {
      const std::int64_t time = unix_milliseconds(clock.now(), clock);
      response.body =
          "{\"timestamp_ms\":" + std::to_string(time) + ",\"power_mw\":" + response.body + "}";
    }
    reply(std::move(response));
  };
}

std::string index_text(const std::vector<int>& indices) {
  std::string text;
  for (const int index : indices) text += (text.empty() ? "" : ", ") + std::to_string(index);
  return "[" + text + "]";
}

net::HttpResponse bad_query(const Error& error) {
  return net::text_response(400, "Query deserialize error: " + error.text());
}

/// Returns the indices in an optional parameter; nullopt if it is absent, which means all.
Result<std::optional<std::vector<int>>> optional_indices(const net::HttpQuery& query,
                                                         const std::string& name,
                                                         const std::string& noun) {
  const auto text = query.find(name);
  if (!text) return std::optional<std::vector<int>>();
  std::vector<int> indices = HARPE_TRY(net::parse_index_list(*text, noun, name));
  return std::optional(std::move(indices));
}

std::optional<int> first_unknown(const std::vector<int>& indices, std::size_t count) {
  for (const int index : indices) {
    if (static_cast<std::size_t>(index) >= count) return index;
  }
  return std::nullopt;
}

/// Returns the error response of a stream if some of the requested indices are not below `count`.
net::HttpResponse unknown_indices(const std::string& noun, const std::vector<int>& asked,
                                  std::size_t count) {
  std::vector<int> unknown;
  std::vector<int> available;
  for (const int index : asked) {
    if (static_cast<std::size_t>(index) >= count) unknown.push_back(index);
  }
  for (std::size_t i = 0; i < count; ++i) available.push_back(static_cast<int>(i));
  return net::error_response(400, "Unknown " + noun + " indices: " + index_text(unknown) +
                                      ". Available: " + index_text(available));
}

net::HttpResponse event_stream(std::shared_ptr<net::EventStream> stream) {
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = std::move(stream)};
}

/// Time between the two energy readings that determine the power of a CPU.
constexpr Seconds kCpuWindow{0.1};

/// Returns the CPUs to read. If the query is invalid, sends the error response and returns nullopt.
std::optional<std::vector<int>> cpus_to_read(const ApiContext& context, const net::HttpQuery& query,
                                             bool is_stream, const net::Reply& reply) {
  const auto asked = optional_indices(query, "cpu_ids", "CPU");
  if (!asked.ok()) return reply(net::error_response(400, asked.error().text())), std::nullopt;
  const auto count = static_cast<std::size_t>(context.controller.cpus());
  std::vector<int> cpus = asked->value_or(std::vector<int>());
  if (!*asked) {
    for (std::size_t i = 0; i < count; ++i) cpus.push_back(static_cast<int>(i));
  }
  if (const auto unknown = first_unknown(cpus, count)) {
    reply(is_stream ? unknown_indices("CPU", cpus, count)
                    : net::error_response(400, "CPU " + std::to_string(*unknown) + " not found"));
    return std::nullopt;
  }
  return cpus;
}

void get_cpu_energy(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<net::HttpQuery> query =
      net::HttpQuery::parse(request.query, {"cpu_ids", "cpu", "dram"});
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
      [cpu = *with_cpu, dram = *with_dram](const CpuEnergy& energy) -> net::OrderedJson {
        const auto micro = [](Joules joules) {
          return net::OrderedJson(std::llround(joules.value * 1e6));
        };
        return {{"cpu_energy_uj", cpu ? micro(energy.package) : net::OrderedJson()},
                {"dram_energy_uj", dram && energy.dram ? micro(*energy.dram) : net::OrderedJson()}};
      });
}

void get_cpu_power(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(request.query, {"cpu_ids"});
  if (!query.ok()) return reply(bad_query(query.error()));
  const auto cpus = cpus_to_read(context, *query, false, reply);
  if (!cpus) return;
  struct Window {
    Instant begin;
    CpuEnergy before, after;
    Seconds time;
  };
  // Reads the energy, waits on the loop, and reads it again.
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
  read_all<Window>(*cpus, with_time(reply, context.clock), ask, [](const Window& window) {
    return cpu_power_json(window.before, window.after, window.time);
  });
}

void stream_cpu_power(ApiContext& context, const net::HttpRequest& request,
                      const net::Reply& reply) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(request.query, {"cpu_ids"});
  if (!query.ok()) return reply(bad_query(query.error()));
  const auto cpus = cpus_to_read(context, *query, true, reply);
  if (!cpus) return;
  if (!context.controller.policy().may_read_node(request.peer)) {
    return reply(
        net::error_response(403, "the agent's policy does not allow you to read the CPUs' energy"));
  }
  auto stream = context.power.cpus(*cpus, request);
  if (!stream.ok()) return reply(net::error_response(503, stream.error().text()));
  reply(event_stream(*std::move(stream)));
}

// --- Settings -----------------------------------------------------------------------------------

using MakeSettings = Result<std::vector<Setting>> (*)(const net::HttpQuery&);

struct WriteRoute {
  const char* path;
  std::vector<std::string_view> parameters;
  MakeSettings settings;
};

Result<std::vector<Setting>> power_limit(const net::HttpQuery& query) {
  const std::uint32_t milliwatts = HARPE_TRY(query.number("power_limit_mw"));
  return std::vector<Setting>{
      {.kind = Setting::Kind::kPowerLimit, .limit = Watts{milliwatts / 1000.0}}};
}

Result<std::vector<Setting>> persistence_mode(const net::HttpQuery& query) {
  const bool enabled = HARPE_TRY(query.boolean("enabled"));
  return std::vector<Setting>{{.kind = Setting::Kind::kPersistenceMode, .enabled = enabled}};
}

template <ClockDomain domain>
Result<std::vector<Setting>> lock_clocks(const net::HttpQuery& query) {
  const std::uint32_t lowest = HARPE_TRY(query.number("min_clock_mhz"));
  const std::uint32_t highest = HARPE_TRY(query.number("max_clock_mhz"));
  // No GPU has a clock near the largest int, so larger values can be limited.
  constexpr std::uint32_t kMost = 1'000'000'000;
  return std::vector<Setting>{{.kind = Setting::Kind::kLockClocks,
                               .domain = domain,
                               .clocks = {{static_cast<int>(std::min(lowest, kMost))},
                                          {static_cast<int>(std::min(highest, kMost))}}}};
}

template <ClockDomain... domains>
Result<std::vector<Setting>> reset_clocks(const net::HttpQuery& /*query*/) {
  return std::vector<Setting>{{.kind = Setting::Kind::kResetClocks, .domain = domains}...};
}

const std::vector<WriteRoute>& write_routes() {
  static const std::vector<WriteRoute> kRoutes{
      {"/gpu/set_power_limit", {"power_limit_mw"}, power_limit},
      {"/gpu/set_persistence_mode", {"enabled"}, persistence_mode},
      {"/gpu/set_gpu_locked_clocks",
       {"min_clock_mhz", "max_clock_mhz"},
       lock_clocks<ClockDomain::kGraphics>},
      {"/gpu/set_mem_locked_clocks",
       {"min_clock_mhz", "max_clock_mhz"},
       lock_clocks<ClockDomain::kMemory>},
      {"/gpu/reset_gpu_locked_clocks", {}, reset_clocks<ClockDomain::kGraphics>},
      {"/gpu/reset_mem_locked_clocks", {}, reset_clocks<ClockDomain::kMemory>},
      {"/gpu/reset_locked_clocks", {}, reset_clocks<ClockDomain::kGraphics, ClockDomain::kMemory>}};
  return kRoutes;
}

void apply_all(Controller& controller, const net::Peer& peer, const std::vector<Setting>& settings,
               const std::vector<int>& gpus, bool block, const net::Reply& reply) {
  // The lease covers all GPUs or none: if the client may not use one of them, none is changed.
  const Result<Lease> lease = controller.implied_lease(peer, gpus);
  if (!lease.ok()) {
    DeviceErrors refused;
    for (const int gpu : gpus) refused.add(gpu, lease.error());
    return reply(refused.response());
  }

  const int per_gpu = static_cast<int>(settings.size());
  const auto gather =
      Gather<Applied>::of(gpus.size() * settings.size(),
                          [per_gpu, block, reply](const Gather<Applied>::Results& results) {
                            if (!block) return;
                            DeviceErrors errors;
                            for (const auto& [key, result] : results) {
                              if (!result.ok()) errors.add(key / per_gpu, result.error());
                            }
                            reply(errors.empty() ? net::HttpResponse{} : errors.response());
                          });
  for (const int gpu : gpus) {
    for (int i = 0; i < per_gpu; ++i) {
      controller.apply(peer, lease->id, gpu, settings[i], gather->slot(gpu * per_gpu + i));
    }
  }
  if (!block) reply({});
}

void write(ApiContext& context, const WriteRoute& route, const net::HttpRequest& request,
           const net::Reply& reply) {
  std::vector<std::string_view> known = route.parameters;
  known.insert(known.end(), {"gpu_ids", "block"});
  const Result<net::HttpQuery> query = net::HttpQuery::parse(request.query, known);
  if (!query.ok()) return reply(bad_query(query.error()));
  const Result<std::string> ids = query->text("gpu_ids");
  if (!ids.ok()) return reply(bad_query(ids.error()));
  const Result<bool> block = query->boolean("block");
  if (!block.ok()) return reply(bad_query(block.error()));
  const Result<std::vector<Setting>> settings = route.settings(*query);
  if (!settings.ok()) return reply(bad_query(settings.error()));
  const Result<std::vector<int>> gpus = net::parse_index_list(*ids, "GPU", "gpu_ids");
  if (!gpus.ok()) return reply(net::error_response(400, gpus.error().text()));
  if (const auto unknown = first_unknown(*gpus, context.controller.gpus().size())) {
    return reply(
        net::text_response(400, "GPU index " + std::to_string(*unknown) + " does not exist."));
  }
  apply_all(context.controller, request.peer, *settings, *gpus, *block, reply);
}

// --- Readings -----------------------------------------------------------------------------------

/// Returns the GPUs to read. On failure sends the error response and returns nullopt.
std::optional<std::vector<int>> gpus_to_read(const ApiContext& context,
                                             const net::HttpRequest& request,
                                             const net::Reply& reply) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(request.query, {"gpu_ids"});
  if (!query.ok()) return reply(bad_query(query.error())), std::nullopt;
  const auto asked = optional_indices(*query, "gpu_ids", "GPU");
  if (!asked.ok()) return reply(net::error_response(400, asked.error().text())), std::nullopt;
  const Result<std::vector<int>> gpus = readable_gpus(context.controller, request.peer, *asked);
  if (!gpus.ok()) {
    return reply(net::error_response(zeusd_status(gpus.error().code), gpus.error().text())),
           std::nullopt;
  }
  return *gpus;
}

/// Returns one value of a reading, or an error if the GPU does not report it.
template <class T>
Done<GpuReading> pick(std::optional<T> GpuReading::* member, const char* what, Done<T> done) {
  return [member, what, done = std::move(done)](Result<GpuReading> reading) {
    if (!reading.ok()) return done(std::move(reading).error());
    const std::optional<T>& value = (*reading).*member;
    if (!value) {
      return done(
          Error::of(ErrorCode::kNotSupported, std::string("this GPU does not report ") + what));
    }
    done(*value);
  };
}

struct ReadRoute {
  const char* path;
  void (*handle)(ApiContext&, const net::HttpRequest&, const net::Reply&);
};

/// Responds with a document of one entry for each GPU, made of one value of its reading.
template <class T, class Entry>
void read_value(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply,
                std::optional<T> GpuReading::* member, const char* what, Entry entry) {
  const auto gpus = gpus_to_read(context, request, reply);
  if (!gpus) return;
  if (const auto unknown = first_unknown(*gpus, context.controller.gpus().size())) {
    return reply(net::error_response(400, "GPU " + std::to_string(*unknown) + " not found"));
  }
  read_all<T>(
      *gpus, reply,
      [&](int gpu, Done<T> done) {
        context.controller.read(request.peer, gpu, pick(member, what, std::move(done)));
      },
      entry);
}

void get_energy(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  read_value(context, request, reply, &GpuReading::energy, "its energy",
             [](Joules energy) { return net::OrderedJson{{"energy_mj", milli(energy.value)}}; });
}

void get_power_limit(ApiContext& context, const net::HttpRequest& request,
                     const net::Reply& reply) {
  read_value(context, request, reply, &GpuReading::power_limit, "its power limit",
             [](Watts limit) { return net::OrderedJson{{"power_limit_mw", milli(limit.value)}}; });
}

void get_persistence_mode(ApiContext& context, const net::HttpRequest& request,
                          const net::Reply& reply) {
  read_value(context, request, reply, &GpuReading::persistence_mode, "its persistence mode",
             [](bool enabled) { return net::OrderedJson{{"enabled", enabled}}; });
}

void get_power(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  read_value(context, request, with_time(reply, context.clock), &GpuReading::power, "its power",
             [](Watts power) { return net::OrderedJson(milli(power.value)); });
}

void get_constraints(ApiContext& context, const net::HttpRequest& request,
                     const net::Reply& reply) {
  const auto gpus = gpus_to_read(context, request, reply);
  if (!gpus) return;
  if (const auto unknown = first_unknown(*gpus, context.controller.gpus().size())) {
    return reply(net::error_response(400, "GPU " + std::to_string(*unknown) + " not found"));
  }
  read_all<PowerLimitRange>(
      *gpus, reply,
      [&](int gpu, Done<PowerLimitRange> done) {
        context.controller.power_limit_range(request.peer, gpu, std::move(done));
      },
      [](const PowerLimitRange& range) {
        return net::OrderedJson{{"min_power_limit_mw", milli(range.lowest.value)},
                                {"max_power_limit_mw", milli(range.highest.value)}};
      });
}

void stream_gpu_power(ApiContext& context, const net::HttpRequest& request,
                      const net::Reply& reply) {
  const auto gpus = gpus_to_read(context, request, reply);
  if (!gpus) return;
  const auto& known = context.controller.gpus();
  if (first_unknown(*gpus, known.size())) {
    return reply(unknown_indices("GPU", *gpus, known.size()));
  }
  for (const int gpu : *gpus) {
    if (context.controller.policy().allowance(request.peer, known[gpu]).read) continue;
    return reply(net::error_response(
        403, "the agent's policy does not allow you to read GPU " + std::to_string(gpu)));
  }
  auto stream = context.power.gpus(*gpus, PowerStream::Format::kZeusd, request);
  if (!stream.ok()) return reply(net::error_response(503, stream.error().text()));
  reply(event_stream(*std::move(stream)));
}

// --- Identity -----------------------------------------------------------------------------------

void discover(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  const ApiOptions& options = context.options;
  net::OrderedJson gpus = net::OrderedJson::array();
  for (const GpuIdentity& gpu : context.controller.gpus()) {
    const auto index = static_cast<std::size_t>(gpu.index);
    gpus.push_back({{"id", gpu.index},
                    {"name", gpu.name},
                    {"pci_address", gpu.pci},
                    {"cumulative_energy_available",
                     index < options.gpus_with_energy.size() && options.gpus_with_energy[index]}});
  }
  net::OrderedJson cpus = net::OrderedJson::array();
  for (int cpu = 0; cpu < context.controller.cpus(); ++cpu) {
    const auto index = static_cast<std::size_t>(cpu);
    cpus.push_back({{"id", cpu},
                    {"dram_available",
                     index < options.cpus_with_dram.size() && options.cpus_with_dram[index]}});
  }
  net::OrderedJson groups = net::OrderedJson::array();
  for (const char* group : {kGpuControl, kGpuRead, kCpuRead}) {
    if (options.groups.contains(group)) groups.push_back(group);
  }
  reply(net::json_response(200, {{"gpus", std::move(gpus)},
                                 {"cpus", std::move(cpus)},
                                 {"enabled_api_groups", std::move(groups)},
                                 {"auth_required", request.needs_token}}));
}

void tell_time(ApiContext& context, const net::HttpRequest& /*request*/, const net::Reply& reply) {
  reply(net::json_response(
      200, {{"timestamp_ms", unix_milliseconds(context.clock.now(), context.clock)}}));
}

/// Handles a request for the client's identity. Called only with a verified token.
void who_am_i(ApiContext& context, const net::HttpRequest& request, const net::Reply& reply) {
  net::OrderedJson document{{"sub", request.peer.token_subject}, {"scopes", request.peer.scopes}};
  const auto claims = context.options.token_keys->verify(net::bearer_token(request.authorization),
                                                         std::time(nullptr));
  if (claims.ok() && claims->expires) document["exp"] = *claims->expires;
  reply(net::json_response(200, document));
}

constexpr ReadRoute kReadRoutes[] = {{"/discover", discover},
                                     {"/time", tell_time},
                                     {"/auth/whoami", who_am_i},
                                     {"/gpu/get_cumulative_energy", get_energy},
                                     {"/gpu/get_power", get_power},
                                     {"/gpu/get_power_limit", get_power_limit},
                                     {"/gpu/get_power_limit_constraints", get_constraints},
                                     {"/gpu/get_persistence_mode", get_persistence_mode},
                                     {"/gpu/stream_power", stream_gpu_power},
                                     {"/cpu/get_cumulative_energy", get_cpu_energy},
                                     {"/cpu/get_power", get_cpu_power},
                                     {"/cpu/stream_power", stream_cpu_power}};

net::HttpResponse wrong_method(const char* allowed) {
  net::HttpResponse response = net::error_response(405, std::string("use ") + allowed);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace

bool handle_zeusd(ApiContext& context, net::HttpRequest& request, net::Reply& reply) {
  for (const WriteRoute& route : write_routes()) {
    if (request.path != route.path) continue;
    if (request.method != "POST") return reply(wrong_method("POST")), true;
    return write(context, route, request, reply), true;
  }
  for (const ReadRoute& route : kReadRoutes) {
    if (request.path != route.path) continue;
    if (request.method != "GET") return reply(wrong_method("GET")), true;
    return route.handle(context, request, reply), true;
  }
  return false;
}

}  // namespace harpe::node
