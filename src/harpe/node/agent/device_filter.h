#pragma once
/// \file
/// Rights of a cgroup's processes on devices: the list of cgroup v1, and the eBPF programs of
/// cgroup v2 (BPF_CGROUP_DEVICE). No interface shows the latter as text, so the programs are read
/// from the kernel and interpreted here for one device. Source: the kernel's cgroup-v1/devices.rst,
/// cgroup-v2.rst ("Device controller") and bpf/standardization/instruction-set.rst.

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

/// Returns true if a v1 cgroup with this `devices.list` may read and write the device; nullopt if
/// the text is no such list.
std::optional<bool> list_allows(std::string_view devices_list, DeviceNumber device);

/// Returns true if a program allows opening the device to read and write. Programs of container
/// runtimes, systemd and Slurm only compare and mask their input. Returns nullopt for a program
/// that does anything else, such as reading maps or calling the kernel, or that does not end within
/// as many steps as it has instructions.
std::optional<bool> program_allows(std::span<const bpf_insn> program, DeviceNumber device);

/// Returns true if all programs in force on a v2 cgroup, including those of its ancestors, allow
/// reading and writing the device. Fails if the kernel does not show the programs (CAP_SYS_ADMIN)
/// or one cannot be interpreted. \param cgroup  descriptor of the cgroup's directory
Result<bool> programs_allow(int cgroup, DeviceNumber device);

}  // namespace harpe::node
