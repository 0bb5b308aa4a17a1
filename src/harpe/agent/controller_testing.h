#pragma once
/// \file
/// What tests of a whole controller share: a clock, a directory, waiting for other threads.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "harpe/agent/controller.h"

namespace harpe {

/// Moves only when told; may be told while others look.
class TestClock final : public Clock {
 public:
  Instant now() const override { return {now_}; }
  void sleep_until(Instant until) override { now_ = std::max(now_.load(), until.ns); }
  void advance(Seconds by) { now_ += static_cast<std::int64_t>(by.value * 1e9); }

 private:
  std::atomic<std::int64_t> now_ = 1'000'000'000;
};

/// Waits for what other threads do; a test that waits in vain fails.
template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A directory which everybody may enter; gone with this.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "harpe-agent-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    std::filesystem::permissions(path_, std::filesystem::perms{0755});
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// All files in the directory, no dwell.
  ControllerOptions options() const {
    ControllerOptions options;
    options.state_file = path_ / "state.json";
    options.audit_log = path_ / "audit.jsonl";
    options.clock_socket = path_ / "clock.sock";
    options.minimum_dwell = 0_s;
    return options;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace harpe
