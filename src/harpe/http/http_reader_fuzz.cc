// Bytes of a connection: however they are cut into pieces, the same requests are read from them; no
// body is over its limit. What is no HTTP is noticed when a header is whole, or earlier. The limit
// of headers is out of reach: within some bytes of it, what is refused depends on the cuts.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "harpe/http/http_query.h"
#include "harpe/http/http_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

using namespace harpe;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kBody = 16, kLargerBody = 64;
constexpr const char* kBad = "bad";

/// What was read, as text; the last is what is wrong, if anything is.
std::vector<std::string> read_all(std::string_view bytes, std::size_t step) {
  const HttpSizes sizes{
      .header = 64 * 1024, .body = kBody, .body_of = [](std::string_view, std::string_view path) {
        return path == "/l" ? std::optional(kLargerBody) : std::nullopt;
      }};
  HttpReader reader(sizes);
  std::vector<std::string> seen;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    HttpReader::State state = reader.put(bytes.substr(at, step));
    for (; state == HttpReader::State::kDone; state = reader.put({})) {
      const HttpRequest request = reader.take();
      require(request.path.starts_with('/'));
      require(request.body.size() <= (request.path == "/l" ? kLargerBody : kBody));
      seen.push_back(request.method + "\n" + request.path + "\n" + request.query + "\n" +
                     request.authorization + "\n" + request.body + "\n" +
                     std::to_string(request.version) + (request.keep_alive ? "k" : "c"));
      static_cast<void>(HttpQuery::parse(request.query, {"a", "rank"}));
    }
    if (state == HttpReader::State::kBad) {
      require(reader.bad().status >= 400 && !reader.bad().body.empty());
      seen.emplace_back(kBad);
      break;
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> whole = read_all(bytes, bytes.size() + 1);
  std::vector<std::string> pieces = read_all(bytes, 1 + data[0]);
  if (!whole.empty() && whole.back() == kBad && (pieces.empty() || pieces.back() != kBad)) {
    pieces.emplace_back(kBad);
  }
  require(pieces == whole);
  return 0;
}
