#pragma once
/// \file
/// Helpers for tests of a whole controller: a clock, options with its files, a policy.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/base/eventually_testing.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/policy.h"

namespace harpe::node {

/// A clock that moves only on request. Thread-safe.
class TestClock final : public Clock {
 public:
  Instant now() const override { return {now_}; }
  void sleep_until(Instant until) override { now_ = std::max(now_.load(), until.ns); }
  void advance(Seconds by) { now_ += static_cast<std::int64_t>(by.value * 1e9); }

 private:
  std::atomic<std::int64_t> now_ = 1'000'000'000;
};

/// Returns options with all files in the directory and without a minimum dwell.
inline ControllerOptions options_in(const TestDirectory& directory) {
  ControllerOptions options;
  options.state_file = directory / "state.json";
  options.audit_log = directory / "audit.jsonl";
  options.clock_socket = directory / "clock.sock";
  options.minimum_dwell = 0_s;
  return options;
}

/// Returns a policy for the user of this process and all GPUs.
/// \param rules  lines of the entry, such as "read = true\n"
inline Policy policy_of_this_user(const std::string& rules) {
  return *Policy::parse(
      "[[allow]]\nusers = [" + std::to_string(::getuid()) + "]\ngpus = '*'\n" + rules,
      "policy.toml");
}

}  // namespace harpe::node
