#include "harpe/net/http/http_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "harpe/net/http/http_query.h"

namespace harpe::net {
namespace {

using ReaderState = HttpReader::State;
const HttpSizes kSizes;
using ::testing::ElementsAre;

/// Reads bytes, which must not reach into the next request.
ReaderState put(HttpReader& reader, std::string_view bytes) {
  const ReaderState state = reader.read(bytes);
  EXPECT_TRUE(state == ReaderState::kBad || bytes.empty());
  return state;
}

TEST(HttpReader, GivesTheSameRequestsHoweverTheBytesAreCut) {
  const std::string bytes =
      "POST /gpu/set_power_limit?gpu_ids=0,1&block=true HTTP/1.1\r\nHost: x\r\n"
      "Authorization: Bearer t\r\nContent-Length: 4\r\n\r\nbodyGET http://any.host/time "
      "HTTP/1.0\r\n\r\n"
      "POST /empty HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
      "close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    HttpReader reader(kSizes);
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      std::string_view piece = std::string_view(bytes).substr(at, step);
      ReaderState state = reader.read(piece);
      for (; state == ReaderState::kDone; state = reader.read(piece)) {
        const HttpRequest request = reader.take();
        seen.push_back(request.method + " " + request.path + " " + request.query + " " +
                       request.authorization + " " + request.body + " " +
                       std::to_string(request.version) + (request.keep_alive ? "" : " close"));
      }
      ASSERT_EQ(state, ReaderState::kNeedMore) << step << reader.bad().body;
    }
    EXPECT_THAT(seen,
                ElementsAre("POST /gpu/set_power_limit gpu_ids=0,1&block=true Bearer t body 11",
                            "GET /time    10 close", "POST /empty    11", "POST /   abc 11 close"));
    EXPECT_FALSE(reader.begun());
  }
}

TEST(HttpReader, LimitsHeaderAndBody) {
  HttpReader header(kSizes);
  EXPECT_EQ(put(header, "GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(20'000, 'x')),
            ReaderState::kBad);
  EXPECT_EQ(header.bad().status, 431);
  HttpReader line(kSizes);
  EXPECT_EQ(put(line, "GET /" + std::string(20'000, 'x')), ReaderState::kBad);
  HttpReader body(kSizes);
  EXPECT_EQ(put(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n"),
            ReaderState::kBad);
  EXPECT_EQ(body.bad().status, 413);
  HttpReader chunked(kSizes);
  EXPECT_EQ(
      put(chunked, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n" +
                       std::string(70'000, 'x')),
      ReaderState::kBad);
  EXPECT_EQ(chunked.bad().status, 413);
  HttpReader native(kSizes);
  EXPECT_EQ(put(native, "POST /v1/leases?x HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n"),
            ReaderState::kBad);
  EXPECT_EQ(native.bad().status, 413);
  EXPECT_EQ(native.bad().body,
            R"({"error":{"code":"invalid_input","message":"the body is over 65536 bytes"}})"
            "\n");
  HttpReader version(kSizes);
  EXPECT_EQ(put(version, "GET / HTTP/2.0\r\n\r\n"), ReaderState::kBad);
}

TEST(HttpReader, GivesSomeRoutesOtherLimits) {
  const HttpSizes sizes{.body = 4, .body_of = [](std::string_view method, std::string_view path) {
                          return method == "POST" && path == "/big"
                                     ? std::optional<std::size_t>(100'000)
                                     : std::nullopt;
                        }};
  const std::string big(100'000, 'x');
  HttpReader reader(sizes);
  ASSERT_EQ(put(reader, "POST /big?a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"),
            ReaderState::kNeedMore);
  ASSERT_EQ(put(reader, big), ReaderState::kDone);
  EXPECT_EQ(reader.take().body, big);
  ASSERT_EQ(
      put(reader, "POST /big HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" +
                      big + "\r\n0\r\n\r\n"),
      ReaderState::kDone);
  EXPECT_EQ(reader.take().body.size(), big.size());
  ASSERT_EQ(put(reader, "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd"),
            ReaderState::kDone);
  reader.take();
  EXPECT_EQ(put(reader, "PUT /big HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"),
            ReaderState::kBad);
  EXPECT_EQ(reader.bad().status, 413);
  HttpReader over(sizes);
  EXPECT_EQ(
      put(over,
          "POST /big HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n" + big),
      ReaderState::kBad);
  EXPECT_EQ(over.bad().status, 413);
}

TEST(HttpReader, HoldsNoMoreThanItsLimits) {
  const HttpSizes sizes{.header = 1000, .body = 3000};
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n", much(5000, 'x');
  for (const std::string& bytes :
       {much, "GET /" + much, post + "A: " + much, post + "Authorization: " + much,
        "GET /" + std::string(900, 'x') + " HTTP/1.1\r\nHost: x\r\nA: " + much,
        post + "Content-Length: 3000\r\n\r\n" + much,
        post + "Transfer-Encoding: chunked\r\n\r\n" + much,
        post + "Transfer-Encoding: chunked\r\n\r\n1;" + much,
        post + "Transfer-Encoding: chunked\r\n\r\nbb8\r\n" + std::string(3000, 'x') +
            "\r\n0\r\nA: " + much}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{700}, bytes.size()}) {
      HttpReader reader(sizes);
      ReaderState state = ReaderState::kNeedMore;
      for (std::size_t at = 0; at < bytes.size() && state == ReaderState::kNeedMore; at += step) {
        std::string_view piece = std::string_view(bytes).substr(at, step);
        state = reader.read(piece);
        ASSERT_LE(reader.held(), sizes.held(3000)) << bytes.substr(0, 100);
      }
      EXPECT_NE(state, ReaderState::kNeedMore) << bytes.substr(0, 100);
      reader.reset();
      EXPECT_EQ(reader.held(), 0U);
    }
  }
}

TEST(HttpReader, TellsWhoWaitsForContinueOnce) {
  HttpReader reader(kSizes);
  EXPECT_EQ(put(reader,
                "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"),
            ReaderState::kNeedMore);
  EXPECT_TRUE(reader.take_continue());
  EXPECT_FALSE(reader.take_continue());
  EXPECT_EQ(put(reader, "ab"), ReaderState::kDone);
}

TEST(HttpReader, GivesTheHeadBeforeTheBodyOnce) {
  HttpReader reader(kSizes);
  EXPECT_EQ(put(reader, "POST /a?b HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\n"),
            ReaderState::kNeedMore);
  EXPECT_FALSE(reader.take_head());
  EXPECT_EQ(put(reader, "Content-Length: 2\r\n\r\na"), ReaderState::kNeedMore);
  const std::optional<HttpRequest> head = reader.take_head();
  ASSERT_TRUE(head);
  EXPECT_EQ(head->method + head->path + head->query + head->authorization, "POST/abx");
  EXPECT_EQ(head->body, "");
  EXPECT_FALSE(reader.take_head());
  EXPECT_EQ(put(reader, "b"), ReaderState::kDone);
  EXPECT_EQ(reader.take().body, "ab");
  // A request that arrives completely has no separate head.
  EXPECT_EQ(put(reader, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"),
            ReaderState::kDone);
  EXPECT_FALSE(reader.take_head());
}

TEST(HttpQuery, UndoesEscapesAndFindsFaults) {
  const Result<HttpQuery> query = HttpQuery::parse("a=%41+b&c=&&d", {"a", "c", "d"});
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->find("a"), "A b");
  EXPECT_EQ(query->find("c"), "");
  EXPECT_EQ(query->find("d"), "");
  EXPECT_FALSE(query->find("e"));
  EXPECT_FALSE(HttpQuery::parse("a=%4", {"a"}).ok());
  EXPECT_FALSE(HttpQuery::parse("b=1", {"a"}).ok());
}

TEST(IndexList, IsSortedWithoutDuplicates) {
  EXPECT_THAT(*parse_index_list("3, 1,3", "GPU", "gpu_ids"), ElementsAre(1, 3));
  EXPECT_FALSE(parse_index_list("99999999999", "GPU", "gpu_ids").ok());
  EXPECT_FALSE(parse_index_list("+1", "GPU", "gpu_ids").ok());
}

}  // namespace
}  // namespace harpe::net
