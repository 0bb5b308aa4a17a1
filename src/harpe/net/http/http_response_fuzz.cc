// The bytes of another server's response: the result does not depend on how they are cut into
// pieces, and neither the response nor the memory exceeds the limits.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/net/http/http_response_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

using namespace harpe;  // NOLINT(google-build-using-namespace)
using State = net::HttpResponseReader::State;

constexpr net::HttpResponseReader::Limits kLimits{.header = 256, .body = 64};
/// The current line, the kept part of earlier lines, and the inline storage of short strings.
constexpr std::size_t kMostHeld = 2 * kLimits.header + kLimits.body + 1024;

std::string read_all(std::string_view bytes, std::size_t step, bool to_head) {
  net::HttpResponseReader reader(kLimits, to_head);
  State state = State::kNeedMore;
  bool had_head = false;
  for (std::size_t at = 0; at < bytes.size() && state == State::kNeedMore; at += step) {
    std::string_view piece = bytes.substr(at, step);
    state = reader.read(piece);
    if (state == State::kHead) {
      require(!had_head && reader.status() >= 200);
      had_head = true;
      state = reader.read(piece);
      require(state != State::kHead);
    }
    require(reader.held() <= kMostHeld);
    require(state != State::kNeedMore || piece.empty());
  }
  if (state == State::kNeedMore) state = reader.end();
  if (state == State::kBad) {
    require(!reader.why().empty());
    return "bad";
  }
  require(state == State::kDone && had_head);
  const bool keep_alive = reader.keep_alive();
  const net::HttpResponse response = reader.take();
  require(response.status >= 200 && response.status <= 999 && response.body.size() <= kLimits.body);
  require(!to_head || response.body.empty());
  std::string text = std::to_string(response.status) + (keep_alive ? "k" : "c") + "\n" +
                     response.content_type + "\n" + response.body;
  for (const auto& [name, value] : response.headers) text.append("\n").append(name + ": " + value);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const bool to_head = (data[0] & 1) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  require(read_all(bytes, bytes.size() + 1, to_head) == read_all(bytes, 1 + data[1], to_head));
  return 0;
}
