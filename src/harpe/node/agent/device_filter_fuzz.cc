// Any lists and programs of device cgroups: each gives a verdict or none, and a longer list never
// allows less.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "harpe/node/agent/device_filter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harpe;
  std::vector<bpf_insn> program(size / sizeof(bpf_insn));
  if (!program.empty()) std::memcpy(program.data(), data, program.size() * sizeof(bpf_insn));
  for (const std::uint32_t minor : {0U, 3U}) {
    const node::DeviceNumber device{195, minor};
    const auto first = node::program_allows(program, device);
    if (node::program_allows(program, device) != first) std::abort();
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto alone = node::list_allows(text, {195, 3});
  const auto longer = node::list_allows(text + "\nc 1:3 rwm\n", {195, 3});
  if (alone != longer) std::abort();
  const auto with = node::list_allows("c 195:3 rw\n" + text, {195, 3});
  if (alone.has_value() != with.has_value() || (with && !*with)) std::abort();
  return 0;
}
