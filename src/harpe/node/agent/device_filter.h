#pragma once
/// \file
/// Which devices a cgroup lets its processes use: the list of cgroup v1, and the eBPF programs of
/// cgroup v2 (BPF_CGROUP_DEVICE), which no interface tells in words. Those are read from the kernel
/// and followed here for one device. Source: the kernel's cgroup-v1/devices.rst, cgroup-v2.rst
/// ("Device controller") and bpf/standardization/instruction-set.rst.

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::node {

/// A character device.
struct DeviceNumber {
  std::uint32_t major = 0, minor = 0;
};

/// Whether a v1 cgroup with this `devices.list` may read and write the device; nullopt where the
/// text is no such list.
std::optional<bool> list_allows(std::string_view devices_list, DeviceNumber device);

/// What a program answers when the device is opened to read and write: whether it may be. Programs
/// of container runtimes, systemd and Slurm compare and mask what they are given; nullopt for one
/// that does anything else, such as reading maps or calling the kernel, or that does not end within
/// as many steps as it has instructions.
std::optional<bool> program_allows(std::span<const bpf_insn> program, DeviceNumber device);

/// Whether all programs in force on a v2 cgroup, its own and those of cgroups above, let the device
/// be read and written. Fails where the kernel does not show them (CAP_SYS_ADMIN) or one cannot be
/// followed. \param cgroup  its directory, opened
Result<bool> programs_allow(int cgroup, DeviceNumber device);

}  // namespace harpe::node
