// Any message of a client: a request that parses has sane values and a printable name.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/node/agent/clock_listener.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Kind = harpe::node::ClockRequest::Kind;
  const auto request =
      harpe::node::parse_clock_request({reinterpret_cast<const char*>(data), size});
  if (!request.ok()) {
    if (request.error().diagnostics.empty()) std::abort();
    return 0;
  }
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::ranges::all_of(request->name, is_printable)) std::abort();
  if (request->kind == Kind::kLease && request->lease.empty()) std::abort();
  const bool has_duration = request->kind == Kind::kTake || request->kind == Kind::kRenew;
  if (has_duration && !(request->duration.value > 0)) std::abort();
  if (request->kind == Kind::kSet) {
    const harpe::node::Setting& setting = request->setting;
    if (request->gpus.size() != 1) std::abort();
    if (setting.clocks.lowest.value < 0 || !(setting.limit.value >= 0)) std::abort();
  }
  if (request->kind == Kind::kTake && request->gpus.empty()) std::abort();
  for (const int gpu : request->gpus) {
    if (gpu < 0) std::abort();
  }
  return 0;
}
