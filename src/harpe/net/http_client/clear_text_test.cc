// Addresses that a token may reach unencrypted; neither a name nor a proxy sends it elsewhere.

#include "harpe/net/http_client/clear_text.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "harpe/net/http_client/http_fetch.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::net {
namespace {

bool is_loopback_text(const std::string& text) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    return is_loopback(reinterpret_cast<const sockaddr&>(four));
  }
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr), 1) << text;
  return is_loopback(reinterpret_cast<const sockaddr&>(six));
}

/// A server set as the proxy of this process. It answers every request with a page.
class Proxy {
 public:
  Proxy() { ::setenv("http_proxy", server_.url().c_str(), 1); }
  ~Proxy() { ::unsetenv("http_proxy"); }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  std::size_t count() const { return server_.count(); }

 private:
  ScriptedHttpServer server_{[](const std::string&) { return scripted_response(200, "{}"); }};
};

HttpResult asked(HttpLinkOptions options) {
  const auto link = *HttpLink::open(std::move(options));
  std::optional<HttpResult> result;
  link->send("GET", "/", {}, [&](HttpResult got) { result = std::move(got); });
  while (!result) link->step(Seconds{0.01});
  return *std::move(result);
}

TEST(ClearText, LoopbackIsAMatterOfAddresses) {
  for (const char* one : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback_text(one)) << one;
  }
  for (const char* one : {"128.0.0.1", "126.255.255.255", "0.0.0.0", "192.0.2.1", "::", "::2",
                          "::127.0.0.1", "::ffff:192.0.2.1", "fe80::1"}) {
    EXPECT_FALSE(is_loopback_text(one)) << one;
  }
}

TEST(ClearText, ANameThatBeginsAsALoopbackAddressGetsNoToken) {
  const Proxy proxy;
  const auto fetcher = *HttpFetcher::open();
  HttpFetch request{.url = "http://127.0.0.1.evil.test/now",
                    .headers = {{"auth-token", "s3cret"}},
                    .timeout = Seconds{5}};
  EXPECT_EQ(fetcher->fetch(request).status, 200);  // without a secret it goes through the proxy
  ASSERT_EQ(proxy.count(), 1U);
  request.secrets = {"s3cret"};
  EXPECT_EQ(fetcher->fetch(request).status, 0);
  EXPECT_EQ(asked({.server = "http://127.0.0.1.evil.test", .token = "s3cret"}).status, 0);
  EXPECT_EQ(proxy.count(), 1U);
}

TEST(ClearText, ATokenReachesNoAddressBeyondThisMachine) {
  for (const std::string url : {"http://192.0.2.1:80", "http://[2001:db8::1]:80"}) {
    const std::string why = asked({.server = url, .token = "s3cret"}).failure;
    EXPECT_NE(why.find("https:// or to a loopback address only"), std::string::npos) << why;
    EXPECT_NE(why.find("HARPE_INSECURE"), std::string::npos) << why;
    EXPECT_EQ(asked({.server = url, .token_file = "/none"}).failure, why);
  }
}

TEST(ClearText, ATokenReachesALoopbackAddressAndATrustedNetwork) {
  ScriptedHttpServer server([](const std::string&) { return scripted_response(200, "{}"); });
  EXPECT_EQ(asked({.server = server.url(), .token = "s3cret"}).status, 200);
  EXPECT_NE(server.requests().back().find("Bearer s3cret"), std::string::npos);
  const Proxy proxy;
  EXPECT_EQ(asked({.server = "http://harpe.test", .token = "s", .trusted_network = true}).status,
            200);
}

}  // namespace
}  // namespace harpe::net
