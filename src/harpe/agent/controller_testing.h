#pragma once
/// \file
/// What tests of a whole controller share: a clock, its files, waiting for other threads.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "harpe/agent/controller.h"
#include "harpe/base/clock.h"
#include "harpe/base/eventually_testing.h"
#include "harpe/base/test_directory_testing.h"

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

/// All files in the directory, no dwell.
inline ControllerOptions options_in(const TestDirectory& directory) {
  ControllerOptions options;
  options.state_file = directory / "state.json";
  options.audit_log = directory / "audit.jsonl";
  options.clock_socket = directory / "clock.sock";
  options.minimum_dwell = 0_s;
  return options;
}

}  // namespace harpe
