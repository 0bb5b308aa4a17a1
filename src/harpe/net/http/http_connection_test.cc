// Connections of clients that are slow, silent, greedy or gone, without and with TLS. Time limits
// are as short as each test needs. Tests wait for an event and never sleep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <deque>
#include <filesystem>

#include "harpe/base/mutex.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/net/http/http_testing.h"

namespace harpe::net {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr const char* kSlow = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr const char* kListen = "GET /events HTTP/1.1\r\nHost: x\r\n\r\n";
/// For limits that should never be reached.
constexpr Seconds kLong{600};

/// Limits that no test reaches by chance.
HttpLimits patient() {
  HttpLimits limits;
  limits.handshake = limits.idle = limits.header = limits.request = limits.response = kLong;
  limits.write = limits.reserved = limits.after_end = kLong;
  limits.at_once = 0.01_s;
  limits.is_vital = [](const HttpRequest& head) { return head.path == "/health"; };
  return limits;
}

/// An endless stream of events of `size` bytes.
class Endless final : public EventStream {
 public:
  Endless(std::atomic<int>& alive, std::size_t size) : alive_(alive), text_(size, 'x') {
    ++alive_;
    alive_.notify_all();
  }
  Endless(const Endless&) = delete;
  Endless& operator=(const Endless&) = delete;
  ~Endless() override {
    --alive_;
    alive_.notify_all();
  }
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override { return text_; }

 private:
  std::atomic<int>& alive_;
  const std::string text_;
};

/// A server whose handler keeps slow requests until the test calls `respond_slowly`.
class Server {
 public:
  explicit Server(HttpLimits limits = patient(), const TestCertificate* certificate = nullptr)
      : server_([this](HttpRequest request, Reply reply) { handle(request, std::move(reply)); },
                {.certificate = certificate, .limits = std::move(limits)}) {}

  LocalServer* operator->() { return &server_; }
  std::uint16_t port() const { return server_.port(); }
  std::atomic<int>& listeners() { return listeners_; }

  /// Waits until `count` slow requests have arrived.
  void wait_for_slow(std::size_t count) {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() HARPE_REQUIRES(mutex_) { return slow_.size() >= count; });
  }
  void respond_slowly(const std::string& body) {
    const MutexLock lock(mutex_);
    for (const Reply& reply : slow_) reply(text_response(200, body));
    slow_.clear();
  }
  /// Waits until `count` clients have left before their response.
  void wait_for_left(std::size_t count) {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() HARPE_REQUIRES(mutex_) { return left_ >= count; });
  }

 private:
  void handle(HttpRequest& request, Reply reply) {
    if (request.path == "/events") {
      const std::size_t size = request.query.empty() ? 16 : std::stoul(request.query);
      return reply({.content_type = "text/event-stream",
                    .stream = std::make_shared<Endless>(listeners_, size)});
    }
    if (request.path == "/large")
      return reply({.body = std::string(std::stoul(request.query), 'x')});
    if (request.path != "/slow") return reply(text_response(200, request.client + "\n"));
    const MutexLock lock(mutex_);
    slow_.push_back(std::move(reply));
    request.presence->when_left([this] {
      const MutexLock locked(mutex_);
      ++left_;
      changed_.notify_all();
    });
    changed_.notify_all();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<Reply> slow_ HARPE_GUARDED_BY(mutex_);
  std::size_t left_ HARPE_GUARDED_BY(mutex_) = 0;
  std::atomic<int> listeners_ = 0;
  LocalServer server_;
};

void wait_for_none(std::atomic<int>& count) {
  for (int now = count; now != 0; now = count) count.wait(now);
}

// --- Time ---------------------------------------------------------------------------------------

TEST(HttpConnection, CutsOffAHeaderThatComesSlowly) {
  HttpLimits limits = patient();
  limits.header = 0.2_s;
  Server server(limits);
  LocalClient client(server.port());
  client.send("GET /health HTTP/1.1\r\n");
  EXPECT_THAT(client.read_to_end(),
              AllOf(StartsWith("HTTP/1.1 408 "), HasSubstr("Connection: close")));
  // Bytes that arrive now and then do not help: the connection is still ended.
  LocalClient dripping(server.port());
  dripping.send("GET /health HTTP/1.1\r\n");
  std::string response;
  std::thread reading([&] { response = dripping.read_to_end(); });
  while (dripping.send("a: b\r\n")) std::this_thread::yield();
  reading.join();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 4"));  // 408, or 431 if the client was fast
}

TEST(HttpConnection, CutsOffABodyThatComesSlowly) {
  HttpLimits limits = patient();
  limits.request = 0.2_s;
  Server server(limits);
  for (const char* framing : {"Content-Length: 5", "Transfer-Encoding: chunked"}) {
    LocalClient client(server.port());
    client.send(std::string("POST /health HTTP/1.1\r\nHost: x\r\n") + framing + "\r\n\r\n1");
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 408 "));
  }
  // The time of a request begins with its first byte, even if it received a 100 (Continue).
  LocalClient continued(server.port());
  continued.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_THAT(continued.read_to_end(), AllOf(StartsWith("HTTP/1.1 100 "), HasSubstr(" 408 ")));
}

TEST(HttpConnection, EndsWithoutAWordWhereNothingWasAsked) {
  HttpLimits limits = patient();
  limits.idle = limits.header = 0.1_s;
  Server server(limits);
  LocalClient silent(server.port());
  EXPECT_EQ(silent.read_to_end(), "");
  LocalClient empty(server.port());
  empty.send("\r\n");
  EXPECT_EQ(empty.read_to_end(), "");
  LocalClient after(server.port());
  after.send(kGet);
  EXPECT_THAT(after.read_to_end(), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("127.0.0.1\n")));
}

/// The thread that reads certificates serves all connections.
TEST(HttpConnection, GoesOnWhereAPipeIsPutInPlaceOfTheCertificate) {
  const TestCertificate certificate;
  Server server(patient(), &certificate);
  const std::filesystem::path file = certificate.files().certificate;
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(server->reload_certificates(), HasSubstr("certificate: is not a regular file"));
  LocalTlsClient client(server.port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("127.0.0.1\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpConnection, EndsHandshakesThatDoNotCome) {
  HttpLimits limits = patient();
  limits.handshake = 0.1_s;
  const TestCertificate certificate;
  Server server(limits, &certificate);
  for (const char* begun : {"", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\n\r\n"}) {
    LocalClient client(server.port());
    client.send(begun);
    EXPECT_THAT(client.read_to_end(), Not(HasSubstr("HTTP")));
  }
  LocalTlsClient client(server.port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("127.0.0.1\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpConnection, GivesHandshakesTheirTurns) {
  HttpLimits limits = patient();
  limits.handshakes = 4;  // one per client
  limits.handshake = 0.3_s;
  const TestCertificate certificate;
  Server server(limits, &certificate);
  std::deque<LocalClient> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(server.port());
  // Waits behind the silent clients. Each lets the next one begin when its time is over.
  LocalTlsClient client(server.port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("127.0.0.1\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(server->connections(), 1U);
}

TEST(HttpConnection, RespondsWhereTheHandlerDoesNot) {
  HttpLimits limits = patient();
  limits.response = 0.1_s;
  Server server(limits);
  LocalClient client(server.port());
  client.send(kSlow);
  EXPECT_THAT(client.read_to_end(),
              AllOf(StartsWith("HTTP/1.1 504 "), HasSubstr("Connection: close")));
  server.wait_for_left(1);        // the handler has been notified
  server.respond_slowly("late");  // and its response is ignored
}

// --- Clients that leave -------------------------------------------------------------------------

TEST(HttpConnection, NoticesClientsThatLeaveWhileTheyWait) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    HttpLimits limits = patient();
    limits.after_end = 0.01_s;
    Server server(limits, tls);
    {
      std::optional<LocalClient> clear;
      std::optional<LocalTlsClient> secure;
      LocalClient& client =
          tls != nullptr ? secure.emplace(server.port()) : clear.emplace(server.port());
      // Bytes after a request are kept for later, and do not hide that the client left.
      client.send(std::string(kSlow) + kGet);
      server.wait_for_slow(1);
    }
    server.wait_for_left(1);
    EXPECT_EQ(server->connections(), 0U);
    server.respond_slowly("too late");
  }
}

TEST(HttpConnection, RespondsToClientsThatHaveSaidAll) {
  Server server;
  LocalClient client(server.port());
  client.send(std::string(kGet) + kSlow);
  client.end_sending();
  server.wait_for_slow(1);
  server.respond_slowly("here it is\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("Connection: keep-alive\r\n\r\nhere it is\n"));
}

TEST(HttpConnection, LetsGoOfListenersThatLeave) {
  const TestCertificate certificate;
  Server clear, secure(patient(), &certificate);
  for (int round = 0; round < 3; ++round) {
    {
      LocalClient one(clear.port());
      LocalTlsClient other(secure.port());
      for (LocalClient* client : {&one, static_cast<LocalClient*>(&other)}) {
        client->send(kListen);
        client->read_until("xxxx");
      }
    }
    wait_for_none(clear.listeners());
    wait_for_none(secure.listeners());
  }
  EXPECT_EQ(clear->connections() + secure->connections(), 0U);
}

// --- Clients that do not read -------------------------------------------------------------------

TEST(HttpConnection, CutsOffClientsThatDoNotReadTheirResponse) {
  HttpLimits limits = patient();
  limits.write = 0.1_s;
  limits.slowest_write = 1e12;
  Server server(limits);
  LocalClient client(server.port(), 4096);
  client.send("GET /large?30000000 HTTP/1.1\r\nHost: x\r\n\r\n");
  while (server->connections() > 0) std::this_thread::yield();
  EXPECT_EQ(server->buffered(), 0U);
  EXPECT_LT(client.read_to_end().size(), 30'000'000U);
}

TEST(HttpConnection, CutsOffListenersThatDoNotRead) {
  HttpLimits limits = patient();
  limits.write = 0.1_s;
  Server server(limits);
  LocalClient client(server.port(), 4096);
  client.send("GET /events?100000 HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int now = 0; now == 0; now = server.listeners()) server.listeners().wait(0);
  wait_for_none(server.listeners());
  EXPECT_EQ(server->connections(), 0U);
}

TEST(HttpConnection, GivesLargeResponsesMoreTime) {
  HttpLimits limits = patient();
  limits.write = 0_s;
  limits.slowest_write = 1e4;
  Server server(limits);
  LocalClient client(server.port(), 4096);
  client.send("GET /large?3000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_GT(client.read_to_end().size(), 3'000'000U);
}

// --- Bytes --------------------------------------------------------------------------------------

TEST(HttpConnection, HoldsNoMoreBytesThanItMay) {
  HttpLimits limits = patient();
  limits.buffered = 400'000;
  limits.sizes.body = 1'000'000;
  Server server(limits);
  const std::string body(90'000, 'x');
  std::deque<LocalClient> clients;
  const auto ask = [&]() -> LocalClient& {
    LocalClient& client = clients.emplace_back(server.port());
    client.send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n" + body);
    return client;
  };
  // Two requests fit in half of the limit, the share of one address.
  ask();
  ask();
  server.wait_for_slow(2);
  EXPECT_THAT(ask().read_to_end(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After")));
  EXPECT_GT(server->buffered(), 170'000U);
  EXPECT_LE(server->buffered(), 200'000U);
  // Small requests need no room.
  EXPECT_THAT(asked(server.port(), "GET /health HTTP/1.1\r\nHost: x\r\n"), HasSubstr(" 200 "));
  // Small responses need no room either, large ones do.
  EXPECT_THAT(asked(server.port(), "GET /large?90000 HTTP/1.1\r\nHost: x\r\n"), HasSubstr(" 503 "));
  server.respond_slowly("done\n");
  while (server->buffered() > 0) std::this_thread::yield();
  EXPECT_THAT(asked(server.port(), "GET /large?90000 HTTP/1.1\r\nHost: x\r\n"), HasSubstr(" 200 "));
  // A single response may exceed the limit.
  EXPECT_THAT(asked(server.port(), "GET /large?900000 HTTP/1.1\r\nHost: x\r\n"),
              AllOf(HasSubstr(" 200 "), SizeIs(::testing::Gt(900'000U))));
}

TEST(HttpConnection, HoldsNoMoreOfEventsThanItMay) {
  HttpLimits limits = patient();
  limits.buffered = 100'000;
  Server server(limits);
  LocalClient first(server.port(), 4096), second(server.port(), 4096);
  for (LocalClient* client : {&first, &second}) {
    client->send("GET /events?60000 HTTP/1.1\r\nHost: x\r\n\r\n");
    client->read_until("\r\n\r\n");
  }
  // If neither client reads, there is room for the events of one.
  while (server->connections() > 1) std::this_thread::yield();
  EXPECT_EQ(server.listeners(), 1);
  EXPECT_LE(server->buffered(), 60'100U);
}

TEST(HttpConnection, KeepsLittleOfWhatIsSentAhead) {
  Server server;
  LocalClient client(server.port());
  client.send(kSlow);
  server.wait_for_slow(1);
  // Sends until the server stops reading and the socket buffers are full.
  const timeval soon{0, 200'000};
  ::setsockopt(client.socket(), SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
  const std::string ahead(1 << 20, 'x');
  std::size_t sent = 0;
  while (sent < (64U << 20) && client.send(ahead)) sent += ahead.size();
  EXPECT_LT(sent, 64U << 20);
  EXPECT_EQ(server->buffered(), 0U);
  server.respond_slowly("done\n");
  EXPECT_THAT(client.read_until("done\n"), StartsWith("HTTP/1.1 200 "));
}

// --- Room ---------------------------------------------------------------------------------------

TEST(HttpConnection, SaysThatThereIsNoRoomAndHowItIs) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    HttpLimits limits = patient();
    limits.connections = 2;
    limits.reserve = 4;  // one for each address
    limits.full = "it is full";
    Server server(limits, tls);
    const auto connect = [&]() -> std::unique_ptr<LocalClient> {
      if (tls != nullptr) return std::make_unique<LocalTlsClient>(server.port());
      return std::make_unique<LocalClient>(server.port());
    };
    std::vector<std::unique_ptr<LocalClient>> held;
    for (int i = 0; i < 2; ++i) {
      held.push_back(connect());
      held.back()->send(kGet);
      held.back()->read_until("127.0.0.1\n");
    }
    for (const char* request :
         {"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n",
          "POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"}) {
      const auto client = connect();
      client->send(request);
      EXPECT_THAT(client->read_to_end(),
                  AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 5"),
                        HasSubstr("it is full"), HasSubstr("Connection: close")));
    }
    {
      const auto client = connect();
      client->send(kGet);
      EXPECT_THAT(client->read_to_end(),
                  AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Connection: close")));
    }
    EXPECT_THAT(server->log(), SizeIs(1));
    held.pop_back();
    while (server->connections() > 1) std::this_thread::yield();
    const auto client = connect();
    client->send("GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client->read_until("127.0.0.1\n"), StartsWith("HTTP/1.1 200 "));
  }
}

TEST(HttpConnection, EndsSilenceInTheReserve) {
  HttpLimits limits = patient();
  limits.connections = 1;
  limits.reserve = 2;
  limits.reserved = 0.1_s;
  Server server(limits);
  LocalClient first(server.port());
  first.send(kGet);
  first.read_until("127.0.0.1\n");
  LocalClient silent(server.port());
  // Beyond the reserve, refused at once.
  LocalClient over(server.port());
  EXPECT_THAT(over.read_to_end(), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(silent.read_to_end(), StartsWith("HTTP/1.1 503 "));
}

TEST(HttpConnection, CountsWhomAnotherServerAsksFor) {
  HttpLimits limits = patient();
  limits.connections_per_user = 2;
  limits.reserve = 0;
  limits.origin_of = [](const HttpRequest& head) {
    return head.forward_token.starts_with("for ") ? std::optional(head.forward_token.substr(4))
                                                  : std::nullopt;
  };
  Server server(limits);
  const auto ask = [&](LocalClient& client, const std::string& token) {
    client.send("GET /health HTTP/1.1\r\nHost: x\r\nHarpe-Forwarded: " + token + "\r\n\r\n");
    const std::string head = client.read_until("\r\n\r\n");
    return head + client.read_until("\n");
  };
  // Connections of another server do not count for any client.
  std::deque<LocalClient> servers;
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(ask(servers.emplace_back(server.port()), "for address 10.0.0.9"),
                EndsWith("address 10.0.0.9\n"));
  }
  // A client without proof of being a server counts as itself.
  std::deque<LocalClient> clients;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ask(clients.emplace_back(server.port()), "1"), EndsWith("address 127.0.0.1\n"));
  }
  EXPECT_THAT(ask(clients.emplace_back(server.port()), "1"), StartsWith("HTTP/1.1 503 "));
  servers.clear();
  while (server->connections() > 2) std::this_thread::yield();
}

// --- The end of the server ----------------------------------------------------------------------

TEST(HttpConnection, EndsWithItsServerWhateverIsUnderWay) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    for (const bool loop_runs_on : {false, true}) {
      std::vector<std::unique_ptr<LocalClient>> clients;
      std::optional<LocalClient> half;
      {
        Server server(patient(), tls);
        for (const std::string& sent :
             {std::string(), std::string(kGet), std::string(kSlow), std::string(kListen),
              std::string("GET /events?100000 HTTP/1.1\r\nHost: x\r\n\r\n"),
              std::string("GET /large?30000000 HTTP/1.1\r\nHost: x\r\n\r\n"),
              std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"),
              std::string("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")}) {
          clients.push_back(tls != nullptr ? std::make_unique<LocalTlsClient>(server.port())
                                           : std::make_unique<LocalClient>(server.port()));
          clients.back()->send(sent);
        }
        half.emplace(server.port());  // still in its handshake with TLS
        server.wait_for_slow(1);
        if (loop_runs_on) {
          server->close();
          EXPECT_EQ(server->connections(), 0U);
          server.respond_slowly("late");
        }
      }
      for (const auto& client : clients) client->read_to_end();
    }
  }
}

}  // namespace
}  // namespace harpe::net
