#include "harpe/node/node_client/agent_client.h"

#include <sys/un.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/response_error.h"
#include "harpe/base/text.h"

namespace harpe::node {
namespace {

using Json = nlohmann::ordered_json;

Error garbled() {
  return Error::of(ErrorCode::kUnavailable,
                   "the process that answers on the agent's socket is not the agent");
}

std::string text_at(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.find(key);
  return member != nullptr ? member->string : std::string();
}

std::optional<double> number_at(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.find(key);
  if (member == nullptr || member->type != JsonValue::Type::kNumber) return std::nullopt;
  return member->number;
}

int integer_at(const JsonValue& object, std::string_view key) {
  return static_cast<int>(number_at(object, key).value_or(0));
}

template <class T>
std::optional<T> quantity_at(const JsonValue& object, std::string_view key) {
  const auto number = number_at(object, key);
  if (!number) return std::nullopt;
  return T{static_cast<decltype(T{}.value)>(*number)};
}

Lease lease_of(const JsonValue& object) {
  Lease lease;
  lease.id = text_at(object, "id");
  if (const JsonValue* gpus = object.find("gpus")) {
    for (const JsonValue& gpu : gpus->items) lease.gpus.push_back(static_cast<int>(gpu.integer));
  }
  lease.uid = static_cast<std::int64_t>(number_at(object, "uid").value_or(-1));
  lease.pid = static_cast<std::int64_t>(number_at(object, "pid").value_or(0));
  lease.name = text_at(object, "name");
  lease.expires_in = Seconds{number_at(object, "expires_in_s").value_or(0)};
  if (const JsonValue* controls = object.find("controls")) {
    lease.controls = Controls::none();
    for (const JsonValue& name : controls->items) {
      if (const auto control = control_named(name.string)) lease.controls.add({*control});
    }
  }
  return lease;
}

/// Returns the ranges of a list of number pairs; empty if there is no such member.
template <class Range, class Number>
std::vector<Range> ranges_at(const JsonValue& object, std::string_view key) {
  std::vector<Range> ranges;
  const JsonValue* member = object.find(key);
  if (member == nullptr) return ranges;
  for (const JsonValue& pair : member->items) {
    if (pair.items.size() != 2) continue;
    ranges.push_back(
        {{static_cast<Number>(pair.items[0].number)}, {static_cast<Number>(pair.items[1].number)}});
  }
  return ranges;
}

/// Returns a lock from [900, 1410], or no lock from []; nullopt (unknown) for anything else.
std::optional<ClockLock> lock_at(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.find(key);
  if (member == nullptr || member->type != JsonValue::Type::kArray) return std::nullopt;
  if (member->items.empty()) return ClockLock{};
  if (member->items.size() != 2) return std::nullopt;
  return ClockLock{ClockRange{{static_cast<int>(member->items[0].number)},
                              {static_cast<int>(member->items[1].number)}}};
}

Json setting_json(int gpu, const Setting& setting) {
  Json body{{"gpus", {gpu}}};
  const bool graphics = setting.domain == ClockDomain::kGraphics;
  switch (setting.kind) {
    case Setting::Kind::kLockClocks:
      body[graphics ? "lock_clocks_mhz" : "lock_memory_clocks_mhz"] = {
          setting.clocks.lowest.value, setting.clocks.highest.value};
      break;
    case Setting::Kind::kResetClocks:
      body[graphics ? "reset_clocks" : "reset_memory_clocks"] = true;
      break;
    case Setting::Kind::kPowerLimit:
      body["power_limit_w"] = setting.limit.value;
      break;
    case Setting::Kind::kResetPowerLimit:
      body["reset_power_limit"] = true;
      break;
    case Setting::Kind::kPersistenceMode:
      body["persistence_mode"] = setting.enabled;
      break;
  }
  return body;
}

Applied applied_of(const JsonValue& object) {
  Applied applied;
  applied.text = text_at(object, "text");
  applied.limit = quantity_at<Watts>(object, "power_limit_w");
  applied.clock = quantity_at<Megahertz>(object, "clock_mhz");
  if (const JsonValue* clocks = object.find("clocks_mhz");
      clocks != nullptr && clocks->items.size() == 2) {
    applied.clocks = ClockRange{{static_cast<int>(clocks->items[0].number)},
                                {static_cast<int>(clocks->items[1].number)}};
  }
  if (const JsonValue* honoured = object.find("honoured")) applied.honoured = honoured->boolean;
  if (const JsonValue* dry_run = object.find("dry_run")) applied.dry_run = dry_run->boolean;
  return applied;
}

}  // namespace

std::string agent_socket(const std::string& given) {
  if (!given.empty()) return given;
  const char* variable = std::getenv("HARPE_AGENT_SOCKET");
  return variable != nullptr && *variable != '\0' ? variable : AgentClient::kDefaultSocket;
}

Result<AgentClient> AgentClient::connect(const std::filesystem::path& socket, Seconds longest) {
  const std::string path = socket.string();
  if (path.empty() || path.size() >= sizeof sockaddr_un{}.sun_path) {
    return Error::invalid("this is not the path of a socket: " + in_quotes(path));
  }
  net::HttpLinkOptions options;
  options.server = "http://harpe";  // only for the header; the socket determines the server
  options.unix_socket = socket;
  options.timeout = longest;
  AgentClient client(path, HARPE_TRY(net::HttpLink::open(std::move(options))));
  HARPE_TRY(client.respond("GET", "/health", {}));
  return client;
}

Result<net::HttpResult> AgentClient::respond(const std::string& method, const std::string& path,
                                             std::string body) {
  std::optional<net::HttpResult> result;
  link_->send(method, path, std::move(body), [&](net::HttpResult got) { result = std::move(got); });
  while (!result) link_->step(Seconds{1});
  switch (result->cause) {
    case net::HttpFailure::kNone:
      return *std::move(result);
    case net::HttpFailure::kNoConnection:
      return Error::of(ErrorCode::kUnavailable,
                       "no agent listens on " + socket_ + " (" + result->failure + ")");
    case net::HttpFailure::kBadResponse:
      return garbled();
    case net::HttpFailure::kNoResponse:
      break;
  }
  return Error::of(ErrorCode::kUnavailable, "the agent does not answer: " + result->failure);
}

Result<JsonValue> AgentClient::ask(const std::string& method, const std::string& path,
                                   std::string body) {
  const net::HttpResult response = HARPE_TRY(respond(method, path, std::move(body)));
  Result<JsonValue> document = parse_json(response.body, "answer");
  if (response.status >= 400 && !(document.ok() && document->find("errors") != nullptr)) {
    return response_error(response.status, response.body, "the agent");
  }
  if (!document.ok()) return garbled();
  return document;
}

Result<std::vector<GpuIdentity>> AgentClient::gpus() {
  const JsonValue response = HARPE_TRY(ask("GET", "/v1/gpus"));
  const JsonValue* list = response.find("gpus");
  if (list == nullptr) return garbled();
  std::vector<GpuIdentity> gpus;
  for (const JsonValue& item : list->items) {
    const JsonValue* mig = item.find("is_mig");
    gpus.push_back({.index = integer_at(item, "index"),
                    .uuid = text_at(item, "uuid"),
                    .pci = text_at(item, "pci_address"),
                    .name = text_at(item, "name"),
                    .backend = text_at(item, "backend"),
                    .is_mig = mig != nullptr && mig->boolean});
  }
  return gpus;
}

Result<Lease> AgentClient::take(const LeaseRequest& request) {
  const Json body{{"gpus", request.gpus},
                  {"duration_s", request.duration.value},
                  {"ends_with_process", request.ends_with_process},
                  {"name", request.name},
                  {"controls", names_of(request.controls)}};
  const JsonValue response = HARPE_TRY(ask("POST", "/v1/leases", json_line(body)));
  return lease_of(response);
}

Status AgentClient::renew(const std::string& lease, Seconds duration) {
  const Result<JsonValue> response =
      ask("POST", "/v1/leases/" + lease + "/renew", Json{{"duration_s", duration.value}}.dump());
  return response.ok() ? ok_status() : Status(response.error());
}

Status AgentClient::release(const std::string& lease) {
  const Result<JsonValue> response = ask("DELETE", "/v1/leases/" + lease);
  return response.ok() ? ok_status() : Status(response.error());
}

Result<std::vector<Lease>> AgentClient::leases() {
  const JsonValue response = HARPE_TRY(ask("GET", "/v1/leases"));
  const JsonValue* list = response.find("leases");
  if (list == nullptr) return garbled();
  std::vector<Lease> leases;
  for (const JsonValue& item : list->items) leases.push_back(lease_of(item));
  return leases;
}

Result<std::vector<Lease>> AgentClient::holders(int gpu) {
  const JsonValue response = HARPE_TRY(ask("GET", "/v1/gpus"));
  const JsonValue* list = response.find("gpus");
  if (list == nullptr) return garbled();
  std::vector<Lease> holders;
  for (const JsonValue& item : list->items) {
    const JsonValue* held_by = item.find("held_by");
    if (integer_at(item, "index") != gpu || held_by == nullptr) continue;
    for (const JsonValue& holder : held_by->items) holders.push_back(lease_of(holder));
  }
  return holders;
}

Result<Applied> AgentClient::apply(const std::string& lease, int gpu, const Setting& setting) {
  const JsonValue response = HARPE_TRY(
      ask("POST", "/v1/leases/" + lease + "/settings", setting_json(gpu, setting).dump()));
  const std::string key = std::to_string(gpu);
  if (const JsonValue* errors = response.find("errors")) {
    const JsonValue* error = errors->find(key);
    if (error == nullptr) return garbled();
    return Error::of(response_code(text_at(*error, "code"), 500), text_at(*error, "message"));
  }
  const JsonValue* applied = response.find("applied");
  const JsonValue* own = applied != nullptr ? applied->find(key) : nullptr;
  if (own == nullptr) return garbled();
  return applied_of(*own);
}

Result<GpuOffer> AgentClient::offer(int gpu) {
  const std::string path = "/v1/gpus/" + std::to_string(gpu);
  GpuOffer offer;
  const JsonValue all = HARPE_TRY(ask("GET", "/v1/gpus"));
  const JsonValue* list = all.find("gpus");
  if (list == nullptr) return garbled();
  for (const JsonValue& item : list->items) {
    const JsonValue* may = item.find("may");
    if (integer_at(item, "index") != gpu || may == nullptr) continue;
    offer.allowed_clocks = ranges_at<ClockRange, int>(*may, "clocks_mhz");
    offer.allowed_limits = ranges_at<WattRange, double>(*may, "power_limit_w");
    offer.max_lease = {number_at(*may, "max_lease_s").value_or(0)};
  }
  // Clocks that the client may not set are not requested.
  if (!offer.allowed_clocks.empty()) {
    const Result<JsonValue> clocks = ask("GET", path + "/clocks");
    const JsonValue* known = clocks.ok() ? clocks->find("clocks_mhz") : nullptr;
    if (known != nullptr) {
      for (const JsonValue& clock : known->items) {
        offer.clocks.push_back({static_cast<int>(clock.number)});
      }
    }
  }
  if (!offer.allowed_limits.empty()) {
    const Result<JsonValue> limits = ask("GET", path + "/power_limits");
    if (limits.ok()) {
      const auto lowest = quantity_at<Watts>(*limits, "lowest_w");
      const auto highest = quantity_at<Watts>(*limits, "highest_w");
      const auto factory = quantity_at<Watts>(*limits, "factory_w");
      if (lowest && highest) {
        offer.limits = PowerLimitRange{*lowest, *highest, factory.value_or(*highest)};
      }
    }
  }
  return offer;
}

Result<GpuReading> AgentClient::read(int gpu) {
  const JsonValue response = HARPE_TRY(ask("GET", "/v1/gpus/" + std::to_string(gpu)));
  GpuReading reading;
  reading.energy = quantity_at<Joules>(response, "energy_j");
  reading.power = quantity_at<Watts>(response, "power_w");
  reading.average_power = quantity_at<Watts>(response, "average_power_w");
  reading.power_limit = quantity_at<Watts>(response, "power_limit_w");
  reading.enforced_power_limit = quantity_at<Watts>(response, "enforced_power_limit_w");
  reading.graphics_clock = quantity_at<Megahertz>(response, "graphics_clock_mhz");
  reading.memory_clock = quantity_at<Megahertz>(response, "memory_clock_mhz");
  reading.temperature = number_at(response, "temperature_c");
  reading.graphics_lock = lock_at(response, "locked_clocks_mhz");
  reading.memory_lock = lock_at(response, "locked_memory_clocks_mhz");
  reading.restore_pending = text_at(response, "restore_pending");
  reading.utilisation = number_at(response, "utilisation");
  return reading;
}

}  // namespace harpe::node
