#pragma once
/// \file
/// A server on its own port, and a minimal HTTP client, for tests.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "harpe/base/eventually_testing.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/training_server.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

struct TestResponse {
  int status = 0;
  std::string head, body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

/// One keep-alive connection.
class TestClient {
 public:
  explicit TestClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval patience{60, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  void send(const std::string& method, const std::string& path, const std::string& body = {},
            const std::string& headers = {}) {
    send_raw(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
             "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void send_raw(const std::string& bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  TestResponse receive() {
    TestResponse response;
    const std::size_t end = read_until("\r\n\r\n");
    if (end == std::string::npos) return response;
    response.head = received_.substr(0, end);
    received_.erase(0, end + 4);
    response.status = std::atoi(response.head.substr(9, 3).c_str());
    const std::size_t length = response.head.find("Content-Length: ");
    if (length == std::string::npos) return response;
    const std::size_t size = std::strtoull(response.head.c_str() + length + 16, nullptr, 10);
    while (received_.size() < size && read_some()) {
    }
    response.body = received_.substr(0, size);
    received_.erase(0, size);
    return response;
  }
  TestResponse ask(const std::string& method, const std::string& path, const std::string& body = {},
                   const std::string& headers = {}) {
    send(method, path, body, headers);
    return receive();
  }
  /// Returns the data of the next event with this name; empty if the connection ended.
  std::string event(const std::string& name) {
    const std::string begin = "event: " + name + "\ndata: ";
    for (;;) {
      const std::size_t at = read_until(begin);
      if (at == std::string::npos) return {};
      received_.erase(0, at + begin.size());
      const std::size_t end = read_until("\n\n");
      if (end == std::string::npos) return {};
      const std::string data = received_.substr(0, end);
      received_.erase(0, end);
      return data;
    }
  }

 private:
  bool read_some() {
    char buffer[65536];
    const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (size <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(size));
    return true;
  }
  std::size_t read_until(const std::string& text) {
    for (;;) {
      const std::size_t at = received_.find(text);
      if (at != std::string::npos) return at;
      if (!read_some()) return std::string::npos;
    }
  }

  UniqueFd fd_;
  std::string received_;
};

/// A server on 127.0.0.1 and the thread of its loop.
class TestServer {
 public:
  struct Options {
    std::unique_ptr<Store> store = nullptr;
    std::shared_ptr<net::TokenKeys> keys = {};
    double requests_per_second = 0;
    int workers = 1;
    std::size_t most_ranks = 0;
    Seconds schedule_patience{120};
    JobLifetimes lifetimes = {};
    std::size_t most_jobs = 100'000;
    std::size_t most_memory = std::size_t{4} << 30;
    MachineClocks clocks = MachineClocks::system();
    std::optional<ProfilingOptions> only_profile = {};
    SearchLimits search = {};
    MakeWorkers make_workers = WorkerPool::make;
  };
  explicit TestServer(Options options) : options_(std::move(options)) {
    Result<UniqueFd> fd = net::listen_tcp({.host = "127.0.0.1", .port = 0, .loopback = true});
    EXPECT_TRUE(fd.ok());
    const std::string address = net::listening_address(fd->get());
    port_ = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    std::promise<void> ready;
    std::future<void> is_ready = ready.get_future();
    thread_ = std::thread([this, &ready, listening = *std::move(fd)]() mutable {
      serve(std::move(listening), ready);
    });
    is_ready.wait();
  }
  TestServer() : TestServer(Options()) {}
  ~TestServer() {
    loop_.load()->post([this] { loop_.load()->stop(); });
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  TestClient client() const { return TestClient(port_); }
  TestResponse ask(const std::string& method, const std::string& path,
                   const std::string& body = {}) const {
    return client().ask(method, path, body);
  }
  std::size_t connections() const {
    std::promise<std::size_t> count;
    loop_.load()->post([&] { count.set_value(server_->connections()); });
    return count.get_future().get();
  }

 private:
  void serve(UniqueFd listening, std::promise<void>& ready) {
    net::ServerLoop loop;
    Hosting hosting(loop, system_clock(), options_.store.get(),
                    {.most_jobs = options_.most_jobs,
                     .most_memory = options_.most_memory,
                     .lifetimes = options_.lifetimes,
                     .clocks = options_.clocks,
                     .make_workers = options_.make_workers},
                    [](const std::string&) {});
    JobRegistry registry(loop, hosting,
                         {.workers = options_.workers,
                          .search = options_.search,
                          .only_profile = options_.only_profile});
    RecurringJobs recurring_jobs(hosting);
    EXPECT_TRUE(hosting.restore().ok());
    ServerApi api(registry, recurring_jobs,
                  {.token_keys = options_.keys,
                   .requests_per_second = options_.requests_per_second,
                   .version = "test",
                   .most_ranks = options_.most_ranks,
                   .schedule_patience = options_.schedule_patience});
    net::HttpLimits limits = ServerOptions::default_limits();
    limits.at_once = limits.after_end = Seconds{0.01};
    limits.refuse_unread = [&api](const net::HttpRequest& head) { return api.refuse_unread(head); };
    net::HttpServer server(
        loop,
        [&api](net::HttpRequest request, net::Reply reply) {
          api.handle(std::move(request), std::move(reply));
        },
        std::move(limits), [](const std::string&) {});
    EXPECT_TRUE(server.serve(std::move(listening), options_.keys != nullptr).ok());
    loop.every(Seconds{0.05}, [&] {
      hosting.tick();
      api.tick();
    });
    server_ = &server;
    loop_ = &loop;
    ready.set_value();
    loop.run();
    server.close();
  }

  Options options_;
  std::uint16_t port_ = 0;
  std::atomic<net::ServerLoop*> loop_ = nullptr;
  net::HttpServer* server_ = nullptr;  ///< used on the loop's thread
  std::thread thread_;
};

/// Returns the profile of two pipelines of two stages, with a forward and a backward each.
inline const char* test_profile() {
  return "stage,instruction,frequency,time,energy\n"
         "0,forward,1700,0.010,3.0\n0,forward,1400,0.012,2.5\n0,forward,1000,0.017,2.2\n"
         "0,backward,1700,0.020,6.0\n0,backward,1400,0.024,5.0\n0,backward,1000,0.034,4.4\n"
         "1,forward,1700,0.014,4.2\n1,forward,1400,0.017,3.5\n1,forward,1000,0.024,3.1\n"
         "1,backward,1700,0.028,8.4\n1,backward,1400,0.034,7.0\n1,backward,1000,0.048,6.2\n";
}

inline std::string test_specification(bool with_profile = true, int micro_batches = 4) {
  nlohmann::json spec = {{"name", "test"},
                         {"data", 2},
                         {"stages", 2},
                         {"schedule", "1f1b"},
                         {"micro_batches", micro_batches},
                         {"blocking_power_w", 80},
                         {"plans", 20}};
  if (with_profile) spec["profile"] = test_profile();
  return spec.dump();
}

inline std::string test_rank(int data, int stage, const std::string& session = "s") {
  return nlohmann::json({{"data", data},
                         {"stage", stage},
                         {"session", session + std::to_string(data) + std::to_string(stage)},
                         {"run", "first"},
                         {"gpu", "simulated"},
                         {"clocks_mhz", {1700, 1400, 1000}}})
      .dump();
}

/// Returns true if the job runs its plans, and no better plans are being made.
inline bool planned(const TestServer& server, const std::string& job) {
  const nlohmann::json status = server.ask("GET", "/v1/jobs/" + job).json();
  return status["phase"] == "running" && status["characterization"].is_null();
}

/// Registers the job and all its ranks.
inline void begin(const TestServer& server, const std::string& job, int micro_batches = 4) {
  TestClient client = server.client();
  ASSERT_EQ(client.ask("PUT", "/v1/jobs/" + job, test_specification(true, micro_batches)).status,
            201);
  for (const int data : {0, 1}) {
    for (const int stage : {0, 1}) {
      const TestResponse rank =
          client.ask("POST", "/v1/jobs/" + job + "/ranks", test_rank(data, stage));
      ASSERT_EQ(rank.status, 200) << rank.body;
      EXPECT_EQ(rank.json()["rank"], data * 2 + stage);
    }
  }
}

}  // namespace harpe::training
