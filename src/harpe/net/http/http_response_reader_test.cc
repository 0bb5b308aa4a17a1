#include "harpe/net/http/http_response_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::net {
namespace {

using ResponseState = HttpResponseReader::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr HttpResponseReader::Limits kLimits{.header = 1000, .body = 100};

/// Reads to the end of the bytes, past the header.
ResponseState read(HttpResponseReader& reader, std::string_view bytes) {
  ResponseState state = reader.read(bytes);
  if (state == ResponseState::kHead) state = reader.read(bytes);
  return state;
}

TEST(HttpResponseReader, ReadsWhatIsHandedOn) {
  HttpResponseReader reader(kLimits, false);
  EXPECT_EQ(read(reader,
                 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Service Unavailable\r\n"
                 "content-type: text/plain\r\nRETRY-AFTER: 7\r\nServer: x\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n"),
            ResponseState::kDone);
  EXPECT_TRUE(reader.keep_alive());
  const HttpResponse response = reader.take();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.content_type, "text/plain");
  EXPECT_EQ(response.body, "abcde");
  EXPECT_THAT(response.headers, ElementsAre(Pair("Retry-After", "7")));
}

TEST(HttpResponseReader, KnowsWhereAResponseEnds) {
  const auto body = [](std::string_view bytes, bool to_head, std::string_view& rest) {
    HttpResponseReader reader(kLimits, to_head);
    rest = bytes;
    EXPECT_EQ(reader.read(rest), ResponseState::kHead);
    ResponseState state = reader.read(rest);
    if (state == ResponseState::kNeedMore) state = reader.end();
    EXPECT_EQ(state, ResponseState::kDone) << bytes;
    return reader.take().body;
  };
  std::string_view rest;
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP", false, rest), "{}");
  EXPECT_EQ(rest, "HTTP");
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true, rest), "");
  EXPECT_EQ(rest, "{}");
  EXPECT_EQ(body("HTTP/1.1 204 No Content\r\n\r\nHTTP", false, rest), "");
  EXPECT_EQ(rest, "HTTP");
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP", false, rest), "");
  EXPECT_EQ(rest, "HTTP");
  EXPECT_EQ(body("HTTP/1.0 200 OK\r\n\r\nto the end", false, rest), "to the end");
}

TEST(HttpResponseReader, RefusesWhatIsNoResponseOrTooMuch) {
  const auto why = [](const std::string& bytes) {
    HttpResponseReader reader(kLimits, false);
    ResponseState state = read(reader, bytes);
    if (state == ResponseState::kNeedMore) state = reader.end();
    EXPECT_EQ(state, ResponseState::kBad) << bytes;
    return reader.why();
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& bytes :
       {std::string("SSH-2.0-x\r\n\r\n"), std::string("HTTP/2 200\r\n\r\n"),
        std::string("HTTP/1.1 20 OK\r\n\r\n"), std::string("HTTP/1.1 200\n\r\n"),
        std::string("HTTP/1.1 2000\r\n\r\n"), ok + "a b: c\r\n\r\n", ok + "a: b\r\n c\r\n\r\n"}) {
    EXPECT_THAT(why(bytes), HasSubstr("is not valid HTTP"));
  }
  EXPECT_THAT(why("HTTP/1.1 101 Switching Protocols\r\n\r\n"), HasSubstr("another protocol"));
  EXPECT_THAT(why(ok + "Content-Length: 5\r\n\r\nabc"), HasSubstr("before its response was"));
  EXPECT_THAT(why(ok + "Content-Length: 101\r\n\r\n"), HasSubstr("over 100 bytes"));
  EXPECT_THAT(why("HTTP/1.0 200 OK\r\n\r\n" + std::string(101, 'x')), HasSubstr("over 100 bytes"));
  EXPECT_THAT(why(ok + "A: " + std::string(1000, 'x')),
              HasSubstr("the header of its response is over 1000 bytes"));
  EXPECT_THAT(why(ok + "Transfer-Encoding: gzip\r\n\r\n"), HasSubstr("the end of the body"));
  EXPECT_THAT(why(ok + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"),
              HasSubstr("both"));
  std::string interim;
  for (int i = 0; i < 100; ++i) interim += "HTTP/1.1 103 Early Hints\r\n\r\n";
  EXPECT_THAT(why(interim), HasSubstr("over 1000 bytes"));
}

}  // namespace
}  // namespace harpe::net
