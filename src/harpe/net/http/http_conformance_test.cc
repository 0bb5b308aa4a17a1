// The response to given bytes, and whether the connection stays open. The programs are tested
// against the same table (tests/http_conformance_test.py).

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harpe/base/source_tree_testing.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/net/http/http_testing.h"

namespace harpe::net {
namespace {

using nlohmann::json;

struct Case {
  std::string name, bytes;
  std::vector<int> statuses;
  bool closes = false;
  bool whole = false;  ///< not sent byte by byte
  bool head = false;   ///< responses have no body
};

/// Converts UTF-8 to Latin-1: the JSON file has each byte as one Latin-1 character.
std::string latin1(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80) {
      bytes += utf8[i];
    } else {
      bytes += static_cast<char>((c & 0x03) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3f));
    }
  }
  return bytes;
}

std::vector<Case> read_cases() {
  std::ifstream file(std::string(source_tree()) + "/tests/http_conformance.json");
  std::vector<Case> cases;
  for (const json& one : json::parse(file)) {
    Case read{.name = one["name"],
              .bytes = {},
              .statuses = one["statuses"],
              .closes = one["closes"],
              .whole = one.value("whole", false),
              .head = one.value("head", false)};
    if (one["send"].is_string()) {
      read.bytes = latin1(one["send"]);
    } else {
      for (const json& part : one["send"]) {
        for (int i = part[1]; i > 0; --i) read.bytes += latin1(part[0]);
      }
    }
    cases.push_back(std::move(read));
  }
  return cases;
}

/// Returns the status of each response, and -1 for text that is not a response.
std::vector<int> statuses_of(std::string_view text, bool head) {
  std::vector<int> statuses;
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n\r\n");
    const std::size_t length = text.find("Content-Length: ");
    if (!text.starts_with("HTTP/1.") || end == std::string_view::npos) {
      statuses.push_back(-1);
      break;
    }
    statuses.push_back(std::stoi(std::string(text.substr(9, 3))));
    const bool has_body = length < end && !std::exchange(head, false);
    const std::size_t size = has_body ? std::stoul(std::string(text.substr(length + 16, 20))) : 0;
    text.remove_prefix(std::min(text.size(), end + 4 + size));
  }
  return statuses;
}

void health(const HttpRequest& request, const Reply& reply) {
  if (request.path != "/health") return reply(text_response(404, "nothing\n"));
  if (request.method != "GET") return reply(wrong_method("GET"));
  reply(text_response(200, "ok\n"));
}

constexpr const char* kLast = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST(HttpConformance, OfAllCasesInOnePieceAndByteByByte) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 150U);
  const TestCertificate certificate;
  LocalServer clear(health);
  LocalServer secure(health, {.certificate = &certificate});
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    std::vector<int> expected = one.statuses;
    if (!one.closes) expected.push_back(200);
    const std::string bytes = one.closes ? one.bytes : one.bytes + kLast;
    {
      LocalClient client(clear.port());
      client.send(bytes);
      EXPECT_EQ(statuses_of(client.read_to_end(), one.head), expected);
    }
    if (!one.whole && bytes.size() < 1000) {
      LocalClient client(clear.port());
      const int at_once = 1;
      ::setsockopt(client.socket(), IPPROTO_TCP, 1, &at_once, sizeof at_once);  // TCP_NODELAY
      for (const char byte : bytes) {
        if (!client.send({&byte, 1})) break;
      }
      EXPECT_EQ(statuses_of(client.read_to_end(), one.head), expected) << "byte by byte";
    }
    {
      LocalTlsClient client(secure.port());
      client.send(bytes);
      EXPECT_EQ(statuses_of(client.read_to_end(), one.head), expected) << "TLS";
      EXPECT_TRUE(client.was_ended());
    }
  }
}

}  // namespace
}  // namespace harpe::net
