// Following a stream, on an imitation of CUDA's driver: calls take effect when the device reaches
// them, times are measured on the device, and the device never delays training.

#include "harpe/training/client/stream_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "harpe/device/hw/system_clock.h"
#include "harpe/training/client/client_testing.h"
#include "harpe/training/client/scripted_cuda_testing.h"

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = RankEvent::Kind;

constexpr std::int64_t kMillisecond = 1'000'000;

/// The device's clock, with an offset.
class DeviceClock final : public Clock {
 public:
  explicit DeviceClock(device::ScriptedLibrary& cuda) : cuda_(cuda) {}
  Instant now() const override {
    return {static_cast<std::int64_t>(cuda_.read("device_ns")) + kOffset};
  }
  void sleep_until(Instant) override {}
  void advance(std::int64_t by) { cuda_.value("device_ns", cuda_.read("device_ns") + by); }

  static constexpr std::int64_t kOffset = 77 * kMillisecond;

 private:
  device::ScriptedLibrary& cuda_;
};

class Heard {
 public:
  StreamFollower::Listener listener() {
    return {.reached =
                [this](const StreamCall& call) {
                  const MutexLock lock(mutex_);
                  if (call.kind == Kind::kIterationBegin) iteration_ = call.iteration;
                  reached_.push_back(call);
                  return iteration_;
                },
            .times =
                [this](std::int64_t iteration, std::span<const TimeSpan> times) {
                  const MutexLock lock(mutex_);
                  times_.emplace_back(iteration, std::vector(times.begin(), times.end()));
                },
            .log =
                [this](const std::string& text) {
                  const MutexLock lock(mutex_);
                  log_.push_back(text);
                }};
  }
  std::size_t reached() {
    const MutexLock lock(mutex_);
    return reached_.size();
  }
  bool reaches(std::size_t calls) {
    return eventually([&] { return reached() == calls; });
  }
  StreamCall last() {
    const MutexLock lock(mutex_);
    return reached_.back();
  }
  std::vector<std::pair<std::int64_t, std::vector<TimeSpan>>> times() {
    const MutexLock lock(mutex_);
    return times_;
  }
  std::vector<std::string> events() {
    const MutexLock lock(mutex_);
    return log_;
  }

 private:
  Mutex mutex_;
  std::int64_t iteration_ HARPE_GUARDED_BY(mutex_) = 0;
  std::vector<StreamCall> reached_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::pair<std::int64_t, std::vector<TimeSpan>>> times_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::string> log_ HARPE_GUARDED_BY(mutex_);
};

std::unique_ptr<StreamFollower> start(Heard& heard, Clock& clock = system_clock()) {
  auto follower = StreamFollower::start(heard.listener(), clock);
  EXPECT_TRUE(follower.ok()) << (follower.ok() ? "" : follower.error().text());
  return follower.ok() ? *std::move(follower) : nullptr;
}

// Must run first: once loaded, the library stays loaded.
TEST(StreamFollower, IsRefusedWhereTheProcessUsesNoGpu) {
  Heard heard;
  const auto without = StreamFollower::start(heard.listener(), system_clock());
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().code, ErrorCode::kNotFound);

  ScriptedCuda cuda;
  cuda.stop_using_device();
  const auto early = StreamFollower::start(heard.listener(), system_clock());
  ASSERT_FALSE(early.ok());
  EXPECT_THAT(early.error().text(), HasSubstr("once the model is on the device"));
  EXPECT_THAT(early.error().text(), HasSubstr("CUDA_ERROR_INVALID_CONTEXT (201)"));
}

TEST(StreamFollower, CallsTakeEffectWhenTheDeviceGetsThere) {
  ScriptedCuda cuda;
  Heard heard;
  auto follower = start(heard);
  void* const stream = cuda.make_stream();
  std::deque<std::promise<void>> gates;
  // Training has made its calls before the device begins.
  gates.push_back(cuda.put_gate(stream));
  for (int i = 0; i < 5; ++i) {
    follower->tell(stream, {.kind = Kind::kInstructionBegin,
                            .instruction = InstructionKind::kBackward,
                            .chunk = 2,
                            .micro_batch = i});
    gates.push_back(cuda.put_gate(stream));
    follower->tell(stream, {.kind = Kind::kInstructionEnd});
  }
  EXPECT_EQ(heard.reached(), 0);
  gates[0].set_value();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(heard.reaches(static_cast<std::size_t>(2 * i + 1)));
    EXPECT_EQ(heard.last().micro_batch, i);
    EXPECT_EQ(heard.last().chunk, 2);
    EXPECT_EQ(heard.last().instruction, InstructionKind::kBackward);
    gates[static_cast<std::size_t>(i) + 1].set_value();
  }
  ASSERT_TRUE(heard.reaches(10));
  EXPECT_EQ(heard.last().kind, Kind::kInstructionEnd);
  follower.reset();
  cuda.destroy_stream(stream);
}

TEST(StreamFollower, TimesAreThoseOfTheWorkOnTheMachinesClock) {
  ScriptedCuda cuda;
  cuda.value("device_ns", 1'000'000'000'000);
  DeviceClock clock(cuda);
  Heard heard;
  auto follower = start(heard, clock);
  std::size_t calls = 0;
  const auto tell = [&](const StreamCall& call) {
    ASSERT_TRUE(follower->tell(nullptr, call));
    ASSERT_TRUE(heard.reaches(++calls));
  };
  std::vector<TimeSpan> true_times;
  for (const std::int64_t iteration : {4, 5}) {
    tell({.kind = Kind::kIterationBegin, .iteration = iteration});
    for (const std::int64_t length : {3, 40, 1}) {
      clock.advance(7 * kMillisecond);
      tell({.kind = Kind::kInstructionBegin});
      const Instant begin = clock.now();
      clock.advance(length * kMillisecond);
      true_times.push_back({begin, clock.now()});
      tell({.kind = Kind::kInstructionEnd});
    }
  }
  tell({.kind = Kind::kIterationEnd});
  ASSERT_TRUE(eventually([&] { return heard.times().size() == 2; }));
  std::size_t k = 0;
  for (const auto& [iteration, times] : heard.times()) {
    EXPECT_EQ(iteration, k == 0 ? 4 : 5);
    ASSERT_THAT(times, SizeIs(3));
    for (const TimeSpan& span : times) {
      // The driver returns milliseconds as a float.
      EXPECT_NEAR(static_cast<double>(span.begin.ns), static_cast<double>(true_times[k].begin.ns),
                  20);
      EXPECT_NEAR(static_cast<double>(span.end.ns), static_cast<double>(true_times[k].end.ns), 20);
      ++k;
    }
  }
}

TEST(StreamFollower, EventsAreUsedAgain) {
  ScriptedCuda cuda;
  Heard heard;
  auto follower = start(heard);
  std::size_t calls = 0;
  for (std::int64_t iteration = 0; iteration < 50; ++iteration) {
    for (const Kind kind : {Kind::kIterationBegin, Kind::kInstructionBegin, Kind::kInstructionEnd,
                            Kind::kIterationEnd}) {
      follower->tell(nullptr, {.kind = kind, .iteration = iteration});
    }
    calls += 4;
    ASSERT_TRUE(heard.reaches(calls));
  }
  EXPECT_EQ(cuda.calls("cuEventRecord"), 200);
  EXPECT_LE(cuda.calls("cuEventCreate"), 12);
  follower.reset();
  EXPECT_EQ(cuda.calls("cuEventDestroy_v2"), cuda.calls("cuEventCreate"));
}

TEST(StreamFollower, WhatACaptureTakesIsNotWaitedForAndNobodyBreaksIt) {
  ScriptedCuda cuda;
  Heard heard;
  auto follower = start(heard);
  auto gate = cuda.put_gate();
  follower->tell(nullptr, {.kind = Kind::kIterationBegin, .iteration = 1});
  follower->tell(nullptr, {.kind = Kind::kInstructionBegin});
  cuda.value("capturing", 1);
  gate.set_value();  // the follower waits for events during the capture
  follower->tell(nullptr, {.kind = Kind::kInstructionEnd});
  ASSERT_TRUE(heard.reaches(3));
  cuda.value("capturing", 0);
  follower->tell(nullptr, {.kind = Kind::kIterationBegin, .iteration = 2});
  follower->tell(nullptr, {.kind = Kind::kInstructionBegin});
  follower->tell(nullptr, {.kind = Kind::kInstructionEnd});
  follower.reset();
  EXPECT_EQ(cuda.read("captures_broken"), 0);
  ASSERT_THAT(heard.times(), SizeIs(1)) << "of the first iteration the device does not know all";
  EXPECT_EQ(heard.times()[0].first, 2);
  EXPECT_THAT(heard.events(), IsEmpty());
}

TEST(StreamFollower, ADeviceThatFailsIsToldOnceAndTrainingGoesOn) {
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuEventSynchronize"}) {
    ScriptedCuda cuda;
    Heard heard;
    auto follower = start(heard);
    cuda.result(function, 700);
    for (int i = 0; i < 3; ++i) {
      follower->tell(nullptr, {.kind = Kind::kInstructionBegin});
      follower->tell(nullptr, {.kind = Kind::kInstructionEnd});
    }
    ASSERT_TRUE(heard.reaches(6)) << function;
    follower.reset();
    EXPECT_THAT(heard.events(), ElementsAre(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)")));
    EXPECT_THAT(heard.times(), IsEmpty());
  }
}

TEST(StreamFollower, ADeviceThatHangsDoesNotHoldUpTheEnd) {
  ScriptedCuda cuda;
  Heard heard;
  auto follower = start(heard);
  auto gate = cuda.put_gate();
  follower->tell(nullptr, {.kind = Kind::kInstructionBegin});
  const Instant begin = system_clock().now();
  follower.reset();
  EXPECT_LT((system_clock().now() - begin).value, 10);
  gate.set_value();
  // The thread ends by itself once the device continues.
  EXPECT_TRUE(eventually([&] { return cuda.calls("cuEventDestroy_v2") == 1; }));
  EXPECT_EQ(heard.reached(), 0) << "the listener is gone";
}

TEST(StreamFollower, WhatIsUnderWayAtTheEndIsStillHeard) {
  ScriptedCuda cuda;
  Heard heard;
  auto follower = start(heard);
  auto gate = cuda.put_gate();
  follower->tell(nullptr, {.kind = Kind::kInstructionBegin});
  follower->tell(nullptr, {.kind = Kind::kInstructionEnd});
  std::thread device([&] { gate.set_value(); });
  follower.reset();
  device.join();
  EXPECT_EQ(heard.reached(), 2);
  EXPECT_THAT(heard.times(), SizeIs(1));
}

}  // namespace
}  // namespace harpe::training
