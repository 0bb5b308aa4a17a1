#pragma once
/// \file
/// Device filters as written by container runtimes and systemd, and cgroups with them, for tests.

#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/device_filter.h"

namespace harpe::node {

/// A line of a list of devices that may be read and written; -1 matches any number.
struct DeviceRule {
  int major = -1, minor = -1;
  bool block = false;
  bool read_only = false;

  bool fits(DeviceNumber device) const {
    return !block && !read_only &&
           (major < 0 || device.major == static_cast<std::uint32_t>(major)) &&
           (minor < 0 || device.minor == static_cast<std::uint32_t>(minor));
  }
};

inline bpf_insn step(int code, int to, int from, int offset, int constant) {
  bpf_insn step{};
  step.code = static_cast<__u8>(code);
  step.dst_reg = static_cast<__u8>(to) & 15U;
  step.src_reg = static_cast<__u8>(from) & 15U;
  step.off = static_cast<__s16>(offset);
  step.imm = constant;
  return step;
}

/// Returns a program that allows the devices of the rules, as runc's does
/// (libcontainer/cgroups/devices).
inline std::vector<bpf_insn> device_program(const std::vector<DeviceRule>& rules) {
  std::vector<bpf_insn> program{step(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0),  // r2: kind
                                step(BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, 0xffff),
                                step(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 0, 0),  // r3: access
                                step(BPF_ALU | BPF_RSH | BPF_K, 3, 0, 0, 16),
                                step(BPF_LDX | BPF_MEM | BPF_W, 4, 1, 4, 0),   // r4: major
                                step(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0)};  // r5: minor
  for (const DeviceRule& rule : rules) {
    std::vector<bpf_insn> block;
    const auto unless = [&block](int number, int constant) {
      block.push_back(step(BPF_JMP | BPF_JNE | BPF_K, number, 0, 0, constant));
    };
    unless(2, rule.block ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
    // Skips the rule if the access has a bit that the rule lacks.
    block.push_back(step(BPF_ALU | BPF_MOV | BPF_X, 1, 3, 0, 0));
    block.push_back(
        step(BPF_ALU | BPF_AND | BPF_K, 1, 0, 0,
             rule.read_only ? BPF_DEVCG_ACC_READ : BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE));
    block.push_back(step(BPF_JMP | BPF_JNE | BPF_X, 1, 3, 0, 0));
    if (rule.major >= 0) unless(4, rule.major);
    if (rule.minor >= 0) unless(5, rule.minor);
    block.push_back(step(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1));
    block.push_back(step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (BPF_CLASS(block[i].code) == BPF_JMP && BPF_OP(block[i].code) == BPF_JNE) {
        block[i].off = static_cast<__s16>(block.size() - i - 1);
      }
    }
    program.insert(program.end(), block.begin(), block.end());
  }
  program.push_back(step(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0));
  program.push_back(step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
  return program;
}

/// A cgroup for one test. The destructor removes it if no process is left in it.
class TestCgroup {
 public:
  /// Creates a cgroup below a tree such as /sys/fs/cgroup/unified. Returns null if that fails.
  static std::unique_ptr<TestCgroup> make(const std::filesystem::path& tree) {
    static int made = 0;
    std::filesystem::path path =
        tree / ("harpe-test-" + std::to_string(::getpid()) + "-" + std::to_string(++made));
    if (::mkdir(path.c_str(), 0755) != 0) return nullptr;
    auto cgroup = std::unique_ptr<TestCgroup>(new TestCgroup(std::move(path)));
    return std::filesystem::exists(cgroup->path() / "cgroup.procs") ? std::move(cgroup) : nullptr;
  }
  ~TestCgroup() { remove(); }

  const std::filesystem::path& path() const { return path_; }
  bool write(const char* file, const std::string& text) const {
    std::ofstream out(path_ / file);
    out << text << std::flush;
    return out.good();
  }
  bool add(pid_t process) const { return write("cgroup.procs", std::to_string(process)); }
  void remove() const { ::rmdir(path_.c_str()); }
  /// Loads and attaches a device program (v2), in addition to others of this cgroup and above.
  bool attach(const std::vector<bpf_insn>& program) const {
    bpf_attr load{};
    load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    load.insn_cnt = static_cast<__u32>(program.size());
    load.insns = reinterpret_cast<std::uintptr_t>(program.data());
    load.license = reinterpret_cast<std::uintptr_t>("GPL");
    const UniqueFd loaded(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load)));
    const UniqueFd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bpf_attr attach{};
    attach.target_fd = static_cast<__u32>(directory.get());
    attach.attach_bpf_fd = static_cast<__u32>(loaded.get());
    attach.attach_type = BPF_CGROUP_DEVICE;
    attach.attach_flags = BPF_F_ALLOW_MULTI;
    return loaded && ::syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof attach) == 0;
  }

 private:
  explicit TestCgroup(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// Returns the mount point of cgroup v2; empty if it is not mounted.
inline std::filesystem::path unified_tree() {
  for (const char* tree : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    if (std::filesystem::exists(std::filesystem::path(tree) / "cgroup.procs") &&
        !std::filesystem::exists(std::filesystem::path(tree) / "tasks")) {
      return tree;
    }
  }
  return {};
}

}  // namespace harpe::node
