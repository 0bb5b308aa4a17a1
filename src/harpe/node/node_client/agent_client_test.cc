// The client of the agent against peers on a real socket: correct and faulty agents.

#include "harpe/node/node_client/agent_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/unique_fd.h"

namespace harpe::node {
namespace {

std::string response(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string socket_path() {
  return ::testing::TempDir() + "harpe_agent_client_" + std::to_string(::getpid());
}

/// A server that listens on `socket_path()` on its own thread.
class Peer {
 public:
  /// Returns the bytes to send for a request, given its line and its body; nullopt to hang up.
  using Respond = std::function<std::optional<std::string>(const std::string&, const std::string&)>;

  /// \param greeting  sent to each client that connects
  explicit Peer(Respond respond, std::string greeting = {})
      : respond_(std::move(respond)),
        greeting_(std::move(greeting)),
        path_(socket_path()),
        listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        stop_(::eventfd(0, EFD_CLOEXEC)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path_.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_.get(), 8), 0);
    thread_ = std::thread([this] { run(); });
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    EXPECT_EQ(::eventfd_write(stop_.get(), 1), 0);
    thread_.join();
    std::filesystem::remove(path_);
  }

  /// True to hang up after each response, without a header that announces it.
  std::atomic<bool> hangs_up = false;
  std::atomic<int> connections = 0;

 private:
  struct Connection {
    UniqueFd socket;
    std::string received = {};
  };

  void run() {
    while (true) {
      std::vector<pollfd> ready{{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
      for (const Connection& one : connected_) ready.push_back({one.socket.get(), POLLIN, 0});
      if (::poll(ready.data(), ready.size(), -1) < 0) continue;
      if (ready[0].revents != 0) return;
      for (std::size_t i = connected_.size(); i-- > 0;) {
        if (ready[i + 2].revents == 0 || hear(connected_[i])) continue;
        connected_.erase(connected_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (ready[1].revents != 0) {
        UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ++connections;
        send_all(socket.get(), greeting_);
        connected_.push_back({std::move(socket)});
      }
    }
  }

  /// Reads a request and sends the response. Returns false if the connection is over.
  bool hear(Connection& connection) {
    char bytes[4096];
    const ssize_t size = ::recv(connection.socket.get(), bytes, sizeof bytes, 0);
    if (size <= 0) return false;
    std::string& received = connection.received;
    received.append(bytes, static_cast<std::size_t>(size));
    const std::size_t head = received.find("\r\n\r\n");
    if (head == std::string::npos) return true;
    const std::size_t length = received.find("Content-Length: ");
    const std::size_t body = length < head ? std::stoul(received.substr(length + 16)) : 0;
    if (received.size() < head + 4 + body) return true;
    const auto bytes_back =
        respond_(received.substr(0, received.find("\r\n")), received.substr(head + 4, body));
    received.erase(0, head + 4 + body);
    return bytes_back && send_all(connection.socket.get(), *bytes_back) && !hangs_up;
  }

  static bool send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const Respond respond_;
  const std::string greeting_, path_;
  UniqueFd listening_, stop_;
  std::vector<Connection> connected_;
  std::thread thread_;
};

/// Responds with success to /health, and with `bytes` to any other request.
Peer::Respond after_health(std::optional<std::string> bytes) {
  return [bytes](const std::string& line, const std::string&) -> std::optional<std::string> {
    return line == "GET /health HTTP/1.1" ? response(200, "{}") : bytes;
  };
}

/// Requests the GPUs of a peer that responds with `bytes`.
Result<std::vector<GpuIdentity>> gpus_of(std::optional<std::string> bytes,
                                         Seconds longest = AgentClient::kLongestRequest) {
  const Peer peer(after_health(std::move(bytes)));
  auto agent = AgentClient::connect(socket_path(), longest);
  EXPECT_TRUE(agent.ok()) << agent.error().text();
  return agent->gpus();
}

constexpr const char* kNotTheAgent =
    "the process that answers on the agent's socket is not the agent";

TEST(AgentClient, SaysThatNoAgentListens) {
  const std::string path = socket_path();
  const auto missing = AgentClient::connect(path);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(missing.error().text(), "no agent listens on " + path + " (No such file or directory)");

  std::ofstream(path) << "no socket";
  const auto file = AgentClient::connect(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().text(), "no agent listens on " + path + " (Connection refused)");
  std::filesystem::remove(path);

  Result<AgentClient> agent = [] {
    const Peer peer(after_health(std::nullopt));
    return AgentClient::connect(socket_path());
  }();
  ASSERT_TRUE(agent.ok());
  const auto gone = agent->gpus();
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().text(), "no agent listens on " + path + " (No such file or directory)");
}

TEST(AgentClient, TakesNoPathThatCannotBeASocket) {
  for (const std::string& path : {std::string(), std::string(108, 'a')}) {
    const auto agent = AgentClient::connect(path);
    ASSERT_FALSE(agent.ok());
    EXPECT_EQ(agent.error().code, ErrorCode::kInvalidInput);
  }
  const auto longest = AgentClient::connect(std::string(107, 'a'));
  ASSERT_FALSE(longest.ok());
  EXPECT_EQ(longest.error().code, ErrorCode::kUnavailable);
}

TEST(AgentClient, KnowsAPeerThatIsNotTheAgent) {
  const std::string head = "HTTP/1.1 200 X\r\nContent-Length: ";
  for (const std::string& bytes :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string("\0\xff\r\n\r\n", 6),
        head + "many\r\n\r\n{}", head + "-1\r\n\r\n{}", response(200, "<html>"), response(200, ""),
        response(200, R"({"agents": []})")}) {
    const auto gpus = gpus_of(bytes);
    ASSERT_FALSE(gpus.ok()) << bytes;
    EXPECT_EQ(gpus.error().code, ErrorCode::kUnavailable) << bytes;
    EXPECT_EQ(gpus.error().text(), kNotTheAgent) << bytes;
  }
  const Peer peer(after_health(std::nullopt), "220 mail.example ESMTP\r\n");
  const auto greeted = AgentClient::connect(socket_path());
  ASSERT_FALSE(greeted.ok());
  EXPECT_EQ(greeted.error().text(), kNotTheAgent);
}

TEST(AgentClient, ReadsNoResponseWithoutEnd) {
  const std::string most(net::kLongestResponse, ' ');
  const auto fits = gpus_of(response(200, R"({"gpus": []})" + most.substr(12)));
  ASSERT_TRUE(fits.ok()) << fits.error().text();
  EXPECT_TRUE(fits->empty());
  for (const std::string& bytes :
       {response(200, R"({"gpus": []})" + most), "HTTP/1.1 200 X\r\n\r\n" + most + most}) {
    const auto gpus = gpus_of(bytes);
    ASSERT_FALSE(gpus.ok());
    EXPECT_EQ(gpus.error().text(), kNotTheAgent);
  }
}

TEST(AgentClient, GivesUpOnAnAgentThatHangsUpOrFallsSilent) {
  const auto expect_silent = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(result.error().text().starts_with("the agent does not answer: "))
        << result.error().text();
  };
  expect_silent(gpus_of(std::nullopt));
  expect_silent(gpus_of("", Seconds{0.05}));
  expect_silent(gpus_of("HTTP/1.1 200 X\r\nContent-Le", Seconds{0.05}));
  expect_silent(gpus_of("HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n{", Seconds{0.05}));
  const auto never = [](const std::string&, const std::string&) { return std::string(); };
  const Peer peer(never);
  expect_silent(AgentClient::connect(socket_path(), Seconds{0.05}));
}

/// Reports a power of n W for GPU n.
std::optional<std::string> respond_with_number(const std::string& line, const std::string&) {
  if (line == "GET /health HTTP/1.1") return response(200, "{}");
  const std::string number = line.substr(line.rfind('/', line.rfind(' ') - 1) + 1);
  return response(200, R"({"power_w": )" + std::to_string(std::stoi(number)) + "}");
}

TEST(AgentClient, AsksManyTimesOverOneConnection) {
  const Peer peer(respond_with_number);
  auto one = AgentClient::connect(socket_path());
  auto other = AgentClient::connect(socket_path());
  ASSERT_TRUE(one.ok() && other.ok());
  for (int gpu = 0; gpu < 20; ++gpu) {
    EXPECT_EQ(one->read(gpu)->power, Watts{static_cast<double>(gpu)});
    EXPECT_EQ(other->read(100 + gpu)->power, Watts{static_cast<double>(100 + gpu)});
  }
  EXPECT_EQ(peer.connections, 2);
}

TEST(AgentClient, ConnectsToAnAgentThatIsNotWell) {
  const Peer peer([](const std::string& line, const std::string&) {
    return std::optional(line == "GET /health HTTP/1.1" ? response(503, "{}")
                                                        : response(200, R"({"power_w": 4})"));
  });
  auto agent = AgentClient::connect(socket_path());
  ASSERT_TRUE(agent.ok()) << agent.error().text();
  EXPECT_EQ(agent->read(0)->power, Watts{4});
}

TEST(AgentClient, ConnectsAgainWhereTheAgentHungUpInBetween) {
  Peer peer(respond_with_number);
  auto agent = AgentClient::connect(socket_path());
  ASSERT_TRUE(agent.ok());
  peer.hangs_up = true;
  for (int gpu = 0; gpu < 5; ++gpu) {
    const auto reading = agent->read(gpu);
    ASSERT_TRUE(reading.ok()) << reading.error().text();
    EXPECT_EQ(reading->power, Watts{static_cast<double>(gpu)});
  }
  EXPECT_GE(peer.connections, 5);
}

TEST(AgentClient, TellsWhatAGpuOffersAndThePolicyAllows) {
  const Peer peer([](const std::string& line, const std::string&) -> std::optional<std::string> {
    if (line.starts_with("GET /v1/gpus/1/clocks ")) {
      return response(200, R"({"gpu": 1, "clocks_mhz": [210, 225, 240]})");
    }
    if (line.starts_with("GET /v1/gpus/1/power_limits ")) {
      return response(200, R"({"gpu": 1, "lowest_w": 100, "highest_w": 300, "factory_w": 250})");
    }
    return response(200, R"({"gpus": [
      {"index": 0, "may": {"clocks_mhz": [], "power_limit_w": [], "max_lease_s": 0}},
      {"index": 1, "may": {"clocks_mhz": [[210, 225], [240, 240]], "power_limit_w": [[120.5, 200]],
                           "max_lease_s": 600}}]})");
  });
  auto agent = AgentClient::connect(socket_path());
  ASSERT_TRUE(agent.ok());
  const auto offer = agent->offer(1);
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->clocks, (std::vector<Megahertz>{{210}, {225}, {240}}));
  ASSERT_EQ(offer->allowed_clocks.size(), 2U);
  EXPECT_EQ(offer->allowed_clocks[1], (ClockRange{{240}, {240}}));
  ASSERT_EQ(offer->allowed_limits.size(), 1U);
  EXPECT_EQ(offer->allowed_limits[0].lowest.value, 120.5);
  ASSERT_TRUE(offer->limits.has_value());
  EXPECT_EQ(offer->limits->factory.value, 250);
  EXPECT_EQ(offer->max_lease.value, 600);
  const auto none = agent->offer(0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->clocks.empty() && none->allowed_clocks.empty() && !none->limits);
}

TEST(AgentClient, SaysWhatItWantsAndKeepsTheCodeOfAnError) {
  Mutex mutex;
  std::vector<std::string> asked;
  const Peer peer([&](const std::string& line, const std::string& body) {
    const MutexLock lock(mutex);
    asked.push_back(line + " " + body);
    if (line.starts_with("POST /v1/leases ")) {
      return std::optional(response(201, R"({"id": "abc", "gpus": [1], "uid": 7, "pid": 8,
          "name": "train", "controls": ["power_limit"], "expires_in_s": 9})"));
    }
    if (line.starts_with("DELETE")) return std::optional(response(200, R"({"released": true})"));
    if (line.find("/settings") != std::string::npos) {
      return std::optional(response(403, R"({"applied": {}, "errors":
          {"1": {"code": "no_permission", "message": "too low"}}})"));
    }
    return std::optional(response(409, R"({"error": {"code": "conflict", "message": "held"}})"));
  });
  auto agent = AgentClient::connect(socket_path());
  ASSERT_TRUE(agent.ok());
  const auto lease = agent->take({.gpus = {1},
                                  .duration = Seconds{9},
                                  .ends_with_process = true,
                                  .name = "train",
                                  .controls = {Control::kPowerLimit}});
  ASSERT_TRUE(lease.ok()) << lease.error().text();
  EXPECT_EQ(lease->id, "abc");
  EXPECT_EQ(lease->gpus, std::vector<int>{1});
  EXPECT_EQ(lease->pid, 8);
  EXPECT_EQ(lease->expires_in, Seconds{9});
  const auto applied =
      agent->apply("abc", 1, {.kind = Setting::Kind::kPowerLimit, .limit = Watts{50}});
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code, ErrorCode::kNoPermission);
  EXPECT_EQ(applied.error().text(), "too low");
  const Status renewed = agent->renew("abc", Seconds{60});
  ASSERT_FALSE(renewed.ok());
  EXPECT_EQ(renewed.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(agent->release("abc").ok());
  const MutexLock lock(mutex);
  EXPECT_EQ(asked,
            (std::vector<std::string>{
                "GET /health HTTP/1.1 ",
                R"(POST /v1/leases HTTP/1.1 {"gpus":[1],"duration_s":9.0,"ends_with_process":true,)"
                R"("name":"train","controls":["power_limit"]})",
                R"(POST /v1/leases/abc/settings HTTP/1.1 {"gpus":[1],"power_limit_w":50.0})",
                R"(POST /v1/leases/abc/renew HTTP/1.1 {"duration_s":60.0})",
                "DELETE /v1/leases/abc HTTP/1.1 "}));
}

}  // namespace
}  // namespace harpe::node
