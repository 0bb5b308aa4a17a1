// Two servers: the first forwards requests to the other.

#include "harpe/net/http/http_forwarder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <optional>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/mutex.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/net/http/http_testing.h"

namespace harpe::net {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A server that forwards everything.
class Front {
 public:
  explicit Front(std::string to, HttpForwarder::Options options = {.timeout = 10_s},
                 LocalServer::Options server = {})
      : to_(std::move(to)), options_(std::move(options)) {
    const auto hand_on = [this](const HttpRequest& request, const Reply& reply) {
      if (!forwarder_) {
        Result<HttpForwarder> made = HttpForwarder::create(server_->loop(), options_);
        ASSERT_TRUE(made.ok()) << made.error().text();
        forwarder_.emplace(*std::move(made));
      }
      forwarder_->forward(to_, request, [reply](Result<HttpResponse> response) {
        reply(response.ok()
                  ? *std::move(response)
                  : error_response(http_status(response.error().code), response.error().text()));
      });
    };
    server_.emplace(hand_on, std::move(server));
  }
  ~Front() {
    std::promise<void> gone;
    server_->loop().post([&] {
      forwarder_.reset();
      gone.set_value();
    });
    gone.get_future().wait();
  }
  std::uint16_t port() const { return server_->port(); }
  LocalServer& server() { return *server_; }
  const std::string& to() const { return to_; }

 private:
  const std::string to_;
  const HttpForwarder::Options options_;
  std::optional<HttpForwarder> forwarder_;  ///< used on the loop's thread
  std::optional<LocalServer> server_;
};

void echo(const HttpRequest& request, const Reply& reply) {
  reply({.status = 409,
         .content_type = "text/plain",
         .body = request.method + " " + request.path + " " + request.query + " " +
                 request.authorization + " " + (request.forwarded ? "forwarded" : "direct") + " " +
                 request.body,
         .headers = {{"Retry-After", "7"}}});
}

TEST(HttpForwarder, HandsOnRequestAndResponseAsTheyAre) {
  LocalServer other(echo);
  const Front front(other.url());
  LocalClient client(front.port());
  client.send(
      "POST /v1/jobs/a%20b/reports?data=1&stage=2 HTTP/1.1\r\nHost: x\r\n"
      "Authorization: Bearer t\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody");
  EXPECT_THAT(
      client.read_to_end(),
      AllOf(StartsWith("HTTP/1.1 409 Conflict\r\n"), HasSubstr("Content-Type: text/plain"),
            HasSubstr("Retry-After: 7\r\n"),
            EndsWith("POST /v1/jobs/a%20b/reports data=1&stage=2 Bearer t forwarded body")));
  EXPECT_THAT(asked(other.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("direct"));
}

TEST(HttpForwarder, KnowsThatHeadHasNoBody) {
  LocalServer other(echo);
  const Front front(other.url(), {.timeout = 60_s});
  EXPECT_THAT(asked(front.port(), "HEAD /v1/jobs HTTP/1.1\r\nHost: x\r\n"),
              AllOf(StartsWith("HTTP/1.1 409 "), EndsWith("\r\n\r\n")));
}

TEST(HttpForwarder, UsesItsConnectionsAgain) {
  LocalServer other(echo);
  const Front front(other.url());
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(asked(front.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("409"));
  }
  EXPECT_EQ(other.connections(), 1U);
}

TEST(HttpForwarder, AsksAgainWhereAKeptConnectionHasEnded) {
  auto other = std::make_unique<LocalServer>(echo);
  const std::uint16_t port = other->port();
  const Front front(other->url());
  EXPECT_THAT(asked(front.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("409"));
  other.reset();
  other = std::make_unique<LocalServer>(echo, LocalServer::Options{.port = port});
  EXPECT_THAT(asked(front.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("409"));
}

TEST(HttpForwarder, SaysSoWhereTheOtherServerIsGoneOrSilentOrNowhere) {
  auto other = std::make_unique<LocalServer>(echo);
  const Front front(other->url());
  other.reset();
  EXPECT_THAT(asked(front.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"),
              AllOf(HasSubstr("503 "), HasSubstr(front.to())));
  Mutex mutex;
  std::vector<Reply> never;
  LocalServer silent([&](const HttpRequest&, Reply reply) {
    const MutexLock lock(mutex);
    never.push_back(std::move(reply));
  });
  const Front impatient(silent.url(), {.timeout = 0.1_s});
  EXPECT_THAT(asked(impatient.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"),
              AllOf(HasSubstr("503 "), HasSubstr("did not respond in time")));
  for (const char* url : {"", "ftp://x:1", "http://", "http://:1", "http://nowhere.invalid:80"}) {
    const Front lost(url);
    EXPECT_THAT(asked(lost.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("503 "));
  }
}

TEST(HttpForwarder, WaitsForWhatMayWait) {
  std::promise<Reply> waiting;
  LocalServer other([&](const HttpRequest& request, Reply reply) {
    if (request.path == "/later") waiting.set_value(std::move(reply));
  });
  const auto may_wait = [](const HttpRequest& request) { return request.path == "/later"; };
  const Front front(other.url(), {.timeout = 0.1_s, .may_wait = may_wait});
  LocalClient rank(front.port());
  rank.send("GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const Reply reply = waiting.get_future().get();
  // A request that was sent later has been given up by now.
  EXPECT_THAT(asked(front.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"),
              HasSubstr("did not respond in time"));
  reply({.body = "here it is"});
  EXPECT_THAT(rank.read_to_end(), EndsWith("here it is"));
}

TEST(HttpForwarder, ReadsTheSystemsCertificatesForServersThatSpeakTlsAlone) {
  std::string file = ::testing::TempDir() + "certificates.XXXXXX";
  const int created = ::mkstemp(file.data());
  ASSERT_GE(created, 0);
  ::close(created);
  ::setenv("SSL_CERT_FILE", file.c_str(), 1);  // OpenSSL reads it as the system's
  const int opened = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(opened, file.c_str(), IN_OPEN), 0);
  const auto was_opened = [&] {
    inotify_event event{};
    return ::read(opened, &event, sizeof event) == sizeof event;
  };
  LocalServer other(echo);
  {
    const Front plain(other.url());
    EXPECT_THAT(asked(plain.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("409"));
    EXPECT_FALSE(was_opened());
    const Front secure("https" + other.url().substr(4));
    EXPECT_THAT(asked(secure.port(), "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"), HasSubstr("503"));
    EXPECT_TRUE(was_opened());
  }
  ::unsetenv("SSL_CERT_FILE");
  ::close(opened);
  ::unlink(file.c_str());
}

TEST(HttpForwarder, RefusesAResponseThatIsNoHttp) {
  Result<UniqueFd> socket = listen_tcp({.host = "127.0.0.1", .port = 0, .loopback = true});
  ASSERT_TRUE(socket.ok());
  const Front front("http://" + listening_address(socket->get()));
  LocalClient client(front.port());
  client.send("GET /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  int accepted = -1;
  ASSERT_TRUE(eventually([&] {
    accepted = ::accept4(socket->get(), nullptr, nullptr, SOCK_CLOEXEC);
    return accepted >= 0;
  }));
  EXPECT_GT(::send(accepted, "SSH-2.0-x\r\n\r\n", 13, MSG_NOSIGNAL), 0);
  EXPECT_THAT(client.read_to_end(), HasSubstr("503 "));
  ::close(accepted);
}

/// Three events, then the end of the stream.
class Three final : public EventStream {
 public:
  explicit Three(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  Three(const Three&) = delete;
  Three& operator=(const Three&) = delete;
  ~Three() override { --alive_; }
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override {
    if (sent_ == 3) return "";
    return "event: n\ndata: " + std::to_string(++sent_) + "\n\n";
  }
  bool ended() const override { return sent_ == 3; }

 private:
  std::atomic<int>& alive_;
  int sent_ = 0;
};

TEST(HttpForwarder, HandsOnEventsUntilTheirEnd) {
  std::atomic<int> alive = 0;
  LocalServer other([&](const HttpRequest&, const Reply& reply) {
    reply({.content_type = "text/event-stream", .stream = std::make_shared<Three>(alive)});
  });
  const Front front(other.url());
  LocalClient client(front.port());
  client.send("GET /v1/jobs/a/events HTTP/1.0\r\n\r\n");
  const std::string said = client.read_to_end();
  EXPECT_THAT(said, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(said, EndsWith("event: n\ndata: 1\n\nevent: n\ndata: 2\n\nevent: n\ndata: 3\n\n"));
  EXPECT_THAT(asked(front.port(), "GET /v1/jobs/a/events HTTP/1.1\r\nHost: x\r\n"),
              AllOf(HasSubstr("chunked"), EndsWith("\r\n0\r\n\r\n")));
}

/// One event, then silence.
class Silent final : public EventStream {
 public:
  explicit Silent(std::promise<void>& gone) : gone_(gone) {}
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  ~Silent() override { gone_.set_value(); }
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override { return std::exchange(text_, ""); }

 private:
  std::promise<void>& gone_;
  std::string text_ = "event: n\ndata: 1\n\n";
};

TEST(HttpForwarder, StopsListeningWhenItsClientLeaves) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    std::promise<void> gone;
    LocalServer other(
        [&](const HttpRequest&, const Reply& reply) {
          reply({.content_type = "text/event-stream", .stream = std::make_shared<Silent>(gone)});
        },
        {.certificate = tls});
    const Front front(other.url(), {.timeout = 10_s, .trusted = certificate.files().certificate});
    {
      LocalClient client(front.port());
      client.send("GET /v1/jobs/a/events HTTP/1.0\r\n\r\n");
      EXPECT_THAT(client.read_until("data: 1\n\n"), HasSubstr("data: 1"));
    }
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
}

/// Options that let requests wait. `watchful` limits quickly detect clients that leave.
HttpForwarder::Options patient(const TestCertificate& certificate) {
  return {.timeout = 10_s,
          .trusted = certificate.files().certificate,
          .may_wait = [](const HttpRequest& request) { return request.path == "/later"; }};
}

HttpLimits watchful() {
  HttpLimits limits;
  limits.at_once = limits.after_end = 0.01_s;
  return limits;
}

TEST(HttpForwarder, GivesUpWhatItsClientHasLeft) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    std::promise<void> asked_for, left;
    std::optional<Reply> never;
    LocalServer other(
        [&](const HttpRequest& request, Reply reply) {
          never = std::move(reply);
          request.presence->when_left([&] { left.set_value(); });
          asked_for.set_value();
        },
        {.certificate = tls, .limits = watchful()});
    Front front(other.url(), patient(certificate), {.limits = watchful()});
    {
      LocalClient rank(front.port());
      rank.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
      asked_for.get_future().wait();
    }
    EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(front.server().connections(), 0U);
    EXPECT_EQ(other.connections(), 0U);
  }
}

/// Large events without end.
class EndlessOrigin final : public EventStream {
 public:
  explicit EndlessOrigin(std::promise<void>& gone) : gone_(gone) {}
  EndlessOrigin(const EndlessOrigin&) = delete;
  EndlessOrigin& operator=(const EndlessOrigin&) = delete;
  ~EndlessOrigin() override { gone_.set_value(); }
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override { return text_; }

 private:
  std::promise<void>& gone_;
  const std::string text_ = std::string(100'000, 'x');
};

TEST(HttpForwarder, LetsGoOfListenersThatDoNotRead) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    SCOPED_TRACE(tls != nullptr);
    std::promise<void> gone;
    LocalServer other(
        [&](const HttpRequest&, const Reply& reply) {
          reply({.content_type = "text/event-stream",
                 .stream = std::make_shared<EndlessOrigin>(gone)});
        },
        {.certificate = tls});
    HttpLimits limits = watchful();
    limits.write = 0.1_s;
    Front front(other.url(), patient(certificate), {.limits = limits});
    LocalClient client(front.port(), 4096);
    client.send("GET /v1/jobs/a/events HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(front.server().connections(), 0U);
  }
}

TEST(HttpForwarder, HoldsNoMoreOfResponsesThanItMay) {
  LocalServer other([](const HttpRequest& request, const Reply& reply) {
    reply({.body = std::string(std::stoul(request.query), 'x')});
  });
  const Front front(other.url(), {.timeout = 10_s, .largest_response = 100'000});
  EXPECT_THAT(asked(front.port(), "GET /?100000 HTTP/1.1\r\nHost: x\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(asked(front.port(), "GET /?100001 HTTP/1.1\r\nHost: x\r\n"),
              AllOf(HasSubstr(" 503 "), HasSubstr("over 100000 bytes")));
}

TEST(HttpForwarder, ShowsWhoItIs) {
  std::promise<std::string> shown;
  LocalServer other([&](const HttpRequest& request, const Reply& reply) {
    shown.set_value(request.forward_token);
    reply({});
  });
  const Front front(other.url(), {.timeout = 10_s, .token_of = [](const HttpRequest& request) {
                                    return "for " + request.client;
                                  }});
  // A token that the client sent itself is not forwarded.
  asked(front.port(), "GET / HTTP/1.1\r\nHost: x\r\nHarpe-Forwarded: for address 10.0.0.9\r\n");
  EXPECT_EQ(shown.get_future().get(), "for address 127.0.0.1");
}

TEST(HttpForwarder, HandsNoTokenOnUnencryptedBeyondThisMachine) {
  // A request without a token is sent to an address where nothing answers.
  const std::string beyond = "http://192.0.2.1:9";
  const std::string plain = "GET / HTTP/1.1\r\nHost: x\r\n";
  const std::string with_token = plain + "Authorization: Bearer s3cret\r\n";
  const HttpForwarder::Options soon{.timeout = 0.1_s};
  const HttpForwarder::Options known{
      .timeout = 10_s, .token_of = [](const HttpRequest&) { return std::string("s3cret"); }};
  const HttpForwarder::Options trusting{.timeout = 0.1_s, .trusted_network = true};
  const std::string refusal = "over https:// or to a loopback address only";
  EXPECT_THAT(asked(Front(beyond, {.timeout = 10_s}).port(), with_token), HasSubstr(refusal));
  EXPECT_THAT(asked(Front(beyond, known).port(), plain), HasSubstr(refusal));
  EXPECT_THAT(asked(Front(beyond, soon).port(), plain), Not(HasSubstr(refusal)));
  EXPECT_THAT(asked(Front(beyond, trusting).port(), with_token), Not(HasSubstr(refusal)));
}

TEST(HttpForwarder, EndsWithItsServersWhateverIsUnderWay) {
  const TestCertificate certificate;
  for (const TestCertificate* tls : {static_cast<const TestCertificate*>(nullptr), &certificate}) {
    for (const bool other_ends_first : {false, true}) {
      SCOPED_TRACE(tls != nullptr);
      std::promise<void> gone;
      std::atomic<int> waiting = 0;
      std::vector<Reply> never;
      std::vector<std::unique_ptr<LocalClient>> clients;
      auto other = std::make_unique<LocalServer>(
          [&](const HttpRequest& request, Reply reply) {
            if (request.path == "/later") {
              never.push_back(std::move(reply));
            } else if (request.path.ends_with("/events")) {
              reply({.content_type = "text/event-stream",
                     .stream = std::make_shared<EndlessOrigin>(gone)});
            } else if (request.path == "/large") {
              reply({.body = std::string(30'000'000, 'x')});
            }
            ++waiting;
            waiting.notify_all();
          },
          LocalServer::Options{.certificate = tls});
      auto front = std::make_unique<Front>(other->url(), patient(certificate));
      for (const char* target : {"/v1/jobs/a/events", "/later", "/large", "/never"}) {
        clients.push_back(std::make_unique<LocalClient>(front->port(), 4096));
        clients.back()->send(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
      }
      for (int now = waiting; now < 4; now = waiting) waiting.wait(now);
      if (other_ends_first) other.reset();
      front.reset();
      other.reset();
      EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    }
  }
}

}  // namespace
}  // namespace harpe::net
