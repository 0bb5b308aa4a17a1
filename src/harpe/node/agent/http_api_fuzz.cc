// Any bytes of a connection, through reader and routes to a controller without devices. Each
// request gets one HTTP response with a length, no setting is applied that the policy forbids, and
// input that is not HTTP gets an error.

#include <cstdlib>

#include "harpe/device/hw/system_clock.h"
#include "harpe/net/http/http_reader.h"
#include "harpe/node/agent/agent_testing.h"
#include "harpe/node/agent/http_api.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  using namespace harpe;  // NOLINT(google-build-using-namespace)
  node::FakeController controller(2, 0);
  net::ServerLoop loop;
  node::AgentApi api(controller, loop, system_clock(),
                     {.token_keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef")});
  // The first byte chooses the client, and the size of the pieces in which the bytes arrive.
  const bool needs_token = (data[0] & 1) != 0;
  const std::size_t step = 1 + data[0] / 2;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  const net::HttpSizes sizes;
  net::HttpReader reader(sizes);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    std::string_view piece = bytes.substr(at, step);
    net::HttpReader::State state = reader.read(piece);
    for (; state == net::HttpReader::State::kDone; state = reader.read(piece)) {
      net::HttpRequest request = reader.take();
      request.needs_token = needs_token;
      if (!needs_token) request.peer = {.uid = 1000, .pid = 1};
      require(request.path.starts_with('/') && request.body.size() <= sizes.body);
      const int version = request.version;
      int responses = 0;
      api.handle(std::move(request), [&](const net::HttpResponse& response) {
        ++responses;
        require(response.status >= 200 && response.status <= 599);
        require(
            net::http_text(response, version, true)
                .ends_with(response.stream == nullptr ? response.body : std::string("\r\n\r\n")));
      });
      require(responses == 1);
    }
    if (state == net::HttpReader::State::kBad) {
      require(reader.bad().status >= 400);
      break;
    }
  }
  for (const std::string& applied : controller.applied) {
    require(applied.starts_with("GPU 0:") && !needs_token);
  }
  return 0;
}
