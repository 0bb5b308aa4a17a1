// Any policy: no peer from outside gets any right without a token, ranges are never inverted, and
// each GPU that may be set may be leased.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/node/agent/policy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto policy =
      harpe::node::Policy::parse({reinterpret_cast<const char*>(data), size}, "policy.toml");
  if (!policy.ok()) {
    if (policy.error().diagnostics.empty()) std::abort();
    return 0;
  }
  harpe::GpuIdentity gpu;
  gpu.uuid = "GPU-1";
  gpu.pci = "0000:01:00.0";
  harpe::net::Peer outside;
  outside.groups = {0};
  const harpe::node::Allowance none = policy->allowance(outside, gpu);
  if (none.read || none.may_control() || policy->may_read_node(outside)) std::abort();
  harpe::net::Peer root;
  root.uid = 0;
  const harpe::node::Allowance allowed = policy->allowance(root, gpu);
  for (const harpe::ClockRange& range : allowed.clocks) {
    if (range.lowest > range.highest || range.lowest.value < 1) std::abort();
  }
  for (const harpe::node::Allowance::WattRange& range : allowed.power_limits) {
    if (!(range.lowest <= range.highest)) std::abort();
  }
  if (allowed.may_control() != (allowed.max_lease.value > 0)) std::abort();
  return 0;
}
