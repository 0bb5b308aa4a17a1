// Pages over real sockets, from a server scripted by the test.

#include "harpe/net/http_client/http_fetch.h"

#include <gtest/gtest.h>

#include <string>

#include "harpe/base/text.h"
#include "harpe/net/http_client/percent_encoded.h"
#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::net {
namespace {

using std::chrono::sys_seconds;

const std::string kJson = "Content-Type: application/json\r\n";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HttpFetch, SendsHeadersAndGivesStatusHeadersAndBody) {
  ScriptedHttpServer server([](const std::string&) {
    return scripted_response(200, "{}", kJson + "ETag: \"a\"\r\nRETRY-after:  7 \r\n");
  });
  const auto fetcher = *HttpFetcher::open();
  const HttpFetched page =
      fetcher->fetch({.url = server.url() + "/x?a=1", .headers = {{"auth-token", "s3cret"}}});
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "{}");
  EXPECT_EQ(page.header("etag"), "\"a\"");
  EXPECT_EQ(page.header("retry-after"), "7");
  EXPECT_EQ(page.header("last-modified"), "");
  ASSERT_EQ(server.count(), 1u);
  const std::string request = server.requests()[0];
  EXPECT_TRUE(request.starts_with("GET /x?a=1 HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(contains(request, "auth-token: s3cret\r\n")) << request;
  EXPECT_TRUE(contains(lower(request), "accept-encoding:")) << request;
}

TEST(HttpFetch, EndsASilentServerAfterItsTimeAndSaysSo) {
  ScriptedHttpServer server([](const std::string&) { return std::nullopt; });
  const auto fetcher = *HttpFetcher::open();
  const HttpFetched page = fetcher->fetch(
      {.url = server.url() + "/?token=s3cret", .secrets = {"s3cret"}, .timeout = Seconds{0.1}});
  EXPECT_EQ(page.status, 0);
  EXPECT_EQ(page.cause, HttpFailure::kNoResponse);
  EXPECT_FALSE(page.failure.empty());
  EXPECT_FALSE(contains(page.failure, "s3cret")) << page.failure;
}

TEST(HttpFetch, TakesNoHalfOfABody) {
  ScriptedHttpServer server([](const std::string&) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":");
  });
  const HttpFetched page = (*HttpFetcher::open())->fetch({.url = server.url()});
  EXPECT_EQ(page.status, 0);
  EXPECT_TRUE(page.body.empty());
  EXPECT_FALSE(page.failure.empty());
}

TEST(HttpFetch, TakesNoMoreThanItsLimit) {
  ScriptedHttpServer server(
      [](const std::string&) { return scripted_response(200, std::string(5000, ' ')); });
  const auto fetcher = *HttpFetcher::open();
  const HttpFetched page = fetcher->fetch({.url = server.url(), .longest = 4999});
  EXPECT_EQ(page.status, 0);
  EXPECT_EQ(page.failure, "the response is over 4999 bytes");
  EXPECT_EQ(fetcher->fetch({.url = server.url(), .longest = 5000}).body.size(), 5000u);
}

TEST(HttpFetch, UndoesCompressionAndCountsWhatComesOut) {
  // `head -c 100000 /dev/zero | gzip -9n`.
  static constexpr unsigned char kBegin[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                             0x03, 0xed, 0xc1, 0x31, 0x01, 0x00, 0x00, 0x00, 0xc2,
                                             0xa0, 0xf5, 0x4f, 0x6d, 0x0d, 0x0f, 0xa0};
  static constexpr unsigned char kEnd[] = {0x80, 0x57, 0x03, 0x7d, 0x95, 0x11,
                                           0xd4, 0xa0, 0x86, 0x01, 0x00};
  const std::string zipped = std::string(reinterpret_cast<const char*>(&kBegin[0]), sizeof kBegin) +
                             std::string(96, 0) +
                             std::string(reinterpret_cast<const char*>(&kEnd[0]), sizeof kEnd);
  ScriptedHttpServer server([&](const std::string&) {
    return scripted_response(200, zipped, "Content-Encoding: gzip\r\n");
  });
  const auto fetcher = *HttpFetcher::open();
  EXPECT_EQ(fetcher->fetch({.url = server.url()}).body, std::string(100000, 0));
  EXPECT_EQ(fetcher->fetch({.url = server.url(), .longest = 1000}).failure,
            "the response is over 1000 bytes");
}

TEST(HttpFetch, FollowsRedirectsOnItsHostAlone) {
  ScriptedHttpServer other([](const std::string&) { return scripted_response(200, "other"); });
  ScriptedHttpServer server([&](const std::string& request) -> std::string {
    if (request.starts_with("GET /old ")) {
      return scripted_response(302, "", "Location: /new\r\n");
    }
    if (request.starts_with("GET /away ")) {
      return scripted_response(302, "", "Location: " + other.url() + "/\r\n");
    }
    if (request.starts_with("GET /round ")) {
      return scripted_response(302, "", "Location: /round\r\n");
    }
    return scripted_response(200, "new");
  });
  const auto fetcher = *HttpFetcher::open();
  EXPECT_EQ(fetcher->fetch({.url = server.url() + "/old"}).body, "new");
  const HttpFetched away = fetcher->fetch({.url = server.url() + "/away"});
  EXPECT_EQ(away.status, 0);
  EXPECT_TRUE(contains(away.failure, "another port")) << away.failure;
  EXPECT_EQ(other.count(), 0u);
  EXPECT_EQ(fetcher->fetch({.url = server.url() + "/round"}).failure, "more than 3 redirects");
}

TEST(HttpFetch, RedirectsStayOnTheHostAndStayEncrypted) {
  EXPECT_EQ(redirect_problem("https://a.example/x", "https://a.example/y"), "");
  EXPECT_EQ(redirect_problem("http://a.example/x", "https://a.example/y"), "");
  EXPECT_NE(redirect_problem("https://a.example/x", "http://a.example/x"), "");
  EXPECT_NE(redirect_problem("https://a.example/x", "https://b.example/x"), "");
  EXPECT_NE(redirect_problem("https://a.example/x", "https://a.example:8443/x"), "");
  EXPECT_NE(redirect_problem("https://a.example/x", "ftp://a.example/x"), "");
  EXPECT_NE(redirect_problem("https://a.example/x", "https://a.example@b.example/x"), "");
}

TEST(HttpFetch, SendsNoTokenUnencryptedToAnotherMachine) {
  const HttpFetched page = (*HttpFetcher::open())
                               ->fetch({.url = "http://192.0.2.1/?securityToken=s3cret",
                                        .secrets = {"s3cret"},
                                        .timeout = Seconds{0.1}});
  EXPECT_EQ(page.failure,
            "a token is sent over https:// or to a loopback address only, and http://192.0.2.1/ is "
            "neither");
}

TEST(HttpFetch, SaysThatNothingListens) {
  std::string url;
  {
    ScriptedHttpServer gone([](const std::string&) { return std::nullopt; });
    url = gone.url();
  }
  EXPECT_EQ((*HttpFetcher::open())->fetch({.url = url}).cause, HttpFailure::kNoConnection);
  EXPECT_EQ((*HttpFetcher::open())->fetch({.url = "file:///etc/passwd"}).failure,
            "it is not an HTTP URL");
}

TEST(HttpFetch, ReadsRetryAfterAsSecondsAndAsADate) {
  const sys_seconds now{std::chrono::seconds{1445412480}};  // 2015-10-21T07:28:00Z
  EXPECT_EQ(parse_retry_after("120", now)->value, 120);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:29:00 GMT", now)->value, 60);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:20:00 GMT", now)->value, 0);
  EXPECT_FALSE(parse_retry_after("soon", now));
  EXPECT_FALSE(parse_retry_after("-1", now));
  EXPECT_FALSE(parse_retry_after("", now));
}

TEST(HttpFetch, ShowsNoQueryOfAUrl) {
  EXPECT_EQ(url_for_messages("https://u:p@a.example/v1/now?securityToken=s#x"),
            "https://a.example/v1/now");
  EXPECT_EQ(percent_encoded("a b/\xc3\xa9~"), "a%20b%2F%C3%A9~");
}

}  // namespace
}  // namespace harpe::net
