// All faults of a provider, over real sockets and with a clock that the test moves.

#include "harpe/carbon/carbon_source/source_link.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::carbon {
namespace {

constexpr UtcTime kBegin{1'767'261'600};  // 2026-01-01T10:00:00Z

/// Responses kept in memory.
class MemoryStore final : public ResponseStore {
 public:
  std::optional<Kept> find(const std::string& url) override {
    const auto found = kept.find(url);
    return found == kept.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const std::string& url, const Kept& response) override { kept[url] = response; }

  std::map<std::string, Kept> kept;
};

/// A link to a server that sends the responses one after another and then repeats the last.
class Provider {
 public:
  explicit Provider(std::vector<std::optional<std::string>> responses,
                    SourceLinkOptions options = {}, ResponseStore* store = nullptr)
      : responses_(std::move(responses)), server_([this](const std::string&) {
          const std::size_t at = std::min(next_++, responses_.size() - 1);
          return responses_[at];
        }) {
    options.provider = "Example";
    options.token_advice = "Get a token at https://example.org";
    link_.emplace(
        *fetcher_, clock, [this] { return kBegin + WholeSeconds(clock.now().ns / 1'000'000'000); },
        options, store);
  }

  Result<std::string> get(const std::string& path = "/now") {
    return link_->get(server_.url() + path, {{"auth-token", "s3cret"}}, {"s3cret"});
  }
  std::size_t count() const { return server_.count(); }
  std::string request(std::size_t i) const { return server_.requests()[i]; }
  std::string url() const { return server_.url(); }

  ManualClock clock;

 private:
  std::vector<std::optional<std::string>> responses_;
  std::size_t next_ = 0;  ///< used only by the server's thread
  std::unique_ptr<net::HttpFetcher> fetcher_ = *net::HttpFetcher::open();
  std::optional<SourceLink> link_;
  net::ScriptedHttpServer server_;
};

bool mentions(const Result<std::string>& result, const std::string& part) {
  return !result.ok() && result.error().text().find(part) != std::string::npos;
}

TEST(SourceLink, TriesAgainAfterFailuresThatPass) {
  Provider provider({net::scripted_response(500, "{}"), net::scripted_response(429, "{}"),
                     std::string(), net::scripted_response(200, "{\"a\": 1}")});
  const auto body = provider.get();
  ASSERT_TRUE(body.ok()) << body.error().text();
  EXPECT_EQ(*body, "{\"a\": 1}");
  EXPECT_EQ(provider.count(), 4u);
  EXPECT_LE(provider.clock.now() - Instant{}, Seconds{1 + 2 + 4});
}

TEST(SourceLink, GivesUpAfterItsAttemptsAndSaysWhatItGot) {
  Provider provider({net::scripted_response(503, "secret page s3cret")});
  const auto body = provider.get("/now?token=s3cret");
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(mentions(body, "status 503"));
  EXPECT_FALSE(mentions(body, "s3cret"));
  EXPECT_EQ(provider.count(), 4u);
}

TEST(SourceLink, WaitsAreDrawnAnewAndDifferBySeed) {
  std::vector<double> waits;
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL, 1ULL}) {
    Provider provider({net::scripted_response(500, "{}")}, {.seed = seed});
    (void)provider.get();
    waits.push_back((provider.clock.now() - Instant{}).value);
    EXPECT_GT(waits.back(), 0) << seed;
    EXPECT_LE(waits.back(), 1 + 2 + 4) << seed;
  }
  EXPECT_NE(waits[0], waits[1]);
  EXPECT_NE(waits[1], waits[2]);
  EXPECT_EQ(waits[0], waits[3]);
}

TEST(SourceLink, ObeysRetryAfterInSecondsAndAsADate) {
  for (const char* after : {"20", "Thu, 01 Jan 2026 10:00:20 GMT"}) {
    Provider provider(
        {net::scripted_response(429, "{}", std::string("Retry-After: ") + after + "\r\n"),
         net::scripted_response(200, "{}")});
    ASSERT_TRUE(provider.get().ok());
    EXPECT_GE(provider.clock.now() - Instant{}, Seconds{20}) << after;
    EXPECT_LT(provider.clock.now() - Instant{}, Seconds{22}) << after;
  }
}

TEST(SourceLink, ALongRetryAfterEndsTheAttemptsAndIsRemembered) {
  Provider provider({net::scripted_response(429, "{}", "Retry-After: 600\r\n"),
                     net::scripted_response(200, "{}")});
  EXPECT_TRUE(mentions(provider.get(), "too many calls"));
  EXPECT_EQ(provider.clock.now(), Instant{});
  EXPECT_TRUE(mentions(provider.get(), "no call within the next 600 s"));
  EXPECT_EQ(provider.count(), 1u);
  provider.clock.advance(Seconds{600});
  EXPECT_TRUE(provider.get().ok());
}

TEST(SourceLink, ARefusedTokenIsFinalAndSaysHowToGetOne) {
  for (const int status : {401, 403}) {
    Provider provider({net::scripted_response(status, R"({"message": "bad token s3cret"})")});
    const auto body = provider.get();
    ASSERT_FALSE(body.ok());
    EXPECT_EQ(body.error().code, ErrorCode::kNoPermission);
    EXPECT_TRUE(mentions(body, "Get a token at https://example.org"));
    EXPECT_FALSE(mentions(body, "s3cret"));
    EXPECT_EQ(provider.count(), 1u);
  }
  Provider unknown({net::scripted_response(404, "{}")});
  EXPECT_EQ(unknown.get().error().code, ErrorCode::kNotFound);
}

TEST(SourceLink, ASilentServerCountsAsAFailureThatPasses) {
  Provider provider({std::nullopt, net::scripted_response(200, "{}")}, {.timeout = Seconds{0.1}});
  EXPECT_TRUE(provider.get().ok());
  EXPECT_EQ(provider.count(), 2u);
}

TEST(SourceLink, TakesNoHalfOfABodyAndNoPageOfAnotherType) {
  Provider half({std::string("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
                 net::scripted_response(200, "{}")});
  EXPECT_EQ(half.get().value(), "{}");
  EXPECT_EQ(half.count(), 2u);
  Provider portal({net::scripted_response(200, "<html>", "Content-Type: text/html\r\n")});
  EXPECT_TRUE(mentions(portal.get(), "answers with 'text/html' instead of json"));
  EXPECT_EQ(portal.count(), 1u);
}

TEST(SourceLink, AHugeBodyIsRefusedOnce) {
  Provider provider({net::scripted_response(200, std::string(net::kLongestResponse + 1, ' '))});
  EXPECT_TRUE(mentions(provider.get(), "is over 16777216 bytes"));
  EXPECT_EQ(provider.count(), 1u);
}

TEST(SourceLink, MakesNoMoreCallsThanMayBeInAPeriod) {
  Provider provider({net::scripted_response(200, "{}")}, {.calls = 3, .period = Seconds{60}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(provider.get().ok());
  EXPECT_EQ(provider.clock.now(), Instant{});
  provider.clock.advance(Seconds{10});
  ASSERT_TRUE(provider.get().ok());
  EXPECT_EQ(provider.clock.now(), Instant{60'000'000'000});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(provider.get().ok());
  EXPECT_EQ(provider.clock.now(), Instant{120'000'000'000});
}

TEST(SourceLink, ShowsValidatorsAndTakesNotModifiedForWhatCameThen) {
  MemoryStore store;
  Provider provider({net::scripted_response(200, "{\"v\": 1}",
                                            "Content-Type: application/json\r\nETag: \"e1\"\r\n"
                                            "Last-Modified: Thu, 01 Jan 2026 09:00:00 GMT\r\n"),
                     net::scripted_response(304, "")},
                    {}, &store);
  ASSERT_TRUE(provider.get("/now?key=s3cret").ok());
  EXPECT_EQ(provider.get("/now?key=s3cret").value(), "{\"v\": 1}");
  EXPECT_NE(provider.request(1).find("If-None-Match: \"e1\"\r\n"), std::string::npos);
  EXPECT_NE(provider.request(1).find("If-Modified-Since: Thu, 01 Jan 2026 09:00:00 GMT\r\n"),
            std::string::npos);
  ASSERT_EQ(store.kept.size(), 1u);
  EXPECT_EQ(store.kept.begin()->first, provider.url() + "/now?key=***");
}

TEST(SourceLink, RedirectsLeadToNoOtherHost) {
  Provider provider({net::scripted_response(302, "", "Location: http://192.0.2.7/now\r\n")});
  EXPECT_TRUE(mentions(provider.get(), "another host"));
  EXPECT_EQ(provider.count(), 1u);
}

}  // namespace
}  // namespace harpe::carbon
