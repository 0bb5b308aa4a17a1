#include "harpe/node_client/agent_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/response_error.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;

/// The agent itself gives up on a device after 60 s.
constexpr timeval kLongestRequest{70, 0};
constexpr std::size_t kLongestResponse = 16U << 20;

Error unavailable(const std::string& why) {
  return Error::of(ErrorCode::kUnavailable, "the agent does not answer: " + why);
}

Error garbled() {
  return Error::of(ErrorCode::kUnavailable, "what answers on the agent's socket is not the agent");
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

/// [900, 1410]; [] is not locked; anything else is not known.
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
  return applied;
}

}  // namespace

Result<AgentClient> AgentClient::connect(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket.string();
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error::invalid("not the path of a socket: " + in_quotes(path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return unavailable(std::strerror(errno));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kLongestRequest, sizeof kLongestRequest);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kLongestRequest, sizeof kLongestRequest);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error::of(ErrorCode::kUnavailable,
                     "no agent listens on " + path + " (" + std::strerror(errno) + ")");
  }
  return AgentClient(std::move(fd));
}

Status AgentClient::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return unavailable(std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return ok_status();
}

namespace {

/// Reads on; false at the end or an error.
bool receive_more(int fd, std::string& received) {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t size = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0 || received.size() > kLongestResponse) return false;
    received.append(buffer.data(), static_cast<std::size_t>(size));
    return true;
  }
}

}  // namespace

Result<std::string> AgentClient::receive_head() {
  std::size_t end = received_.find("\r\n\r\n");
  while (end == std::string::npos) {
    if (!receive_more(fd_.get(), received_)) return unavailable("the connection was closed");
    end = received_.find("\r\n\r\n");
  }
  std::string head = received_.substr(0, end + 2);
  received_.erase(0, end + 4);
  return head;
}

Result<std::string> AgentClient::receive_body(std::string_view head) {
  constexpr std::string_view kLength = "\r\ncontent-length:";
  const std::string lowered = lower(head);
  const std::size_t at = lowered.find(kLength);
  if (at == std::string::npos) return garbled();
  const std::size_t begin = at + kLength.size();
  const auto length = parse_integer(head.substr(begin, head.find("\r\n", begin) - begin));
  if (!length || *length < 0 || static_cast<std::size_t>(*length) > kLongestResponse) {
    return garbled();
  }
  const auto size = static_cast<std::size_t>(*length);
  while (received_.size() < size) {
    if (!receive_more(fd_.get(), received_)) return unavailable("the connection was closed");
  }
  std::string body = received_.substr(0, size);
  received_.erase(0, size);
  return body;
}

Result<JsonValue> AgentClient::ask(const std::string& method, const std::string& path,
                                   const std::string& body) {
  HARPE_TRY(send_all(method + " " + path + " HTTP/1.1\r\nHost: harpe\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n\r\n" + body));
  const std::string head = HARPE_TRY(receive_head());
  const auto status = head.starts_with("HTTP/1.1 ") ? parse_integer(head.substr(9, 3))
                                                    : std::optional<std::int64_t>();
  if (!status) return garbled();
  const std::string response = HARPE_TRY(receive_body(head));
  Result<JsonValue> document = parse_json(response, "answer");
  const auto code = static_cast<int>(*status);
  if (code >= 400 && !(document.ok() && document->find("errors") != nullptr)) {
    return response_error(code, response, "the agent");
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

}  // namespace harpe
