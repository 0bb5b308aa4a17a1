#pragma once
/// \file
/// A small disk for one test, which can be filled: memory mounted in a mount namespace, and also in
/// a user namespace if the test is not run by root.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/controller_testing.h"

namespace harpe::node {

class SmallDisk {
 public:
  /// Returns null if the system does not allow this. Must be called before the test has threads.
  static std::unique_ptr<SmallDisk> make(std::size_t bytes) {
    if (!separate()) return nullptr;
    auto disk = std::unique_ptr<SmallDisk>(new SmallDisk());
    const std::string size = "mode=0755,size=" + std::to_string(bytes);
    disk->mounted_ = ::mount("disk", disk->path().c_str(), "tmpfs", 0, size.c_str()) == 0;
    return disk->mounted_ ? std::move(disk) : nullptr;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path().c_str(), MNT_DETACH);
  }

  const std::filesystem::path& path() const { return directory_.path(); }
  /// Fills the disk until not one more byte fits.
  void fill() const {
    const UniqueFd file(::open((path() / "filling").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    const std::array<char, 4096> block{};
    for (std::size_t size = block.size(); size > 0;) {
      if (::write(file.get(), block.data(), size) <= 0) size /= 2;
    }
  }
  void make_room() const { std::filesystem::remove(path() / "filling"); }

 private:
  SmallDisk() = default;
  static bool separate() {
    if (::unshare(CLONE_NEWNS) == 0) return is_private();
    const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user + " " + user + " 1";
    std::ofstream("/proc/self/gid_map") << group + " " + group + " 1";
    return is_private();
  }
  static bool is_private() {
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }

  TestDirectory directory_;
  bool mounted_ = false;
};

}  // namespace harpe::node
