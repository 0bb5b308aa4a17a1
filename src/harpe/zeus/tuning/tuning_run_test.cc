// The thread beside a job: it handles everything that the job wrote, and ends in order.

#include "harpe/zeus/tuning/tuning_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "harpe/device/hw/system_clock.h"

namespace harpe::zeus {
namespace {

class HeardTuner final : public Tuner {
 public:
  void start() override {}
  void on(const StepEvent& event) override {
    EXPECT_FALSE(finished);
    (event.kind == StepEvent::Kind::kStep ? steps : epochs) += 1;
  }
  void poll(Instant) override {
    if (finished) ++polls_at_end;
  }
  void finish() override { finished = true; }
  bool waits() const override { return finished && polls_at_end < 3; }
  bool profiles() const override { return false; }
  void end_trials(const std::string& why, bool are_steps_timed) override {
    ended = why;
    timed = are_steps_timed;
  }
  void fail(const Error& error) override { failure = error.text(); }
  TuningResult result() const override { return {}; }

  bool finished = false;
  int steps = 0, epochs = 0, polls_at_end = 0;
  std::string failure, ended;
  bool timed = true;
};

class CountingSetter final : public KnobSetter {
 public:
  const Knob& knob() const override { return knob_; }
  Status set(std::size_t) override { return ok_status(); }
  Status keep(Instant) override { return kept; }
  Status restore() override {
    ++restores;
    return restored;
  }

  Status kept = ok_status(), restored = ok_status();
  int restores = 0;

 private:
  Knob knob_;
};

class TuningRunTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(file_.path(), std::ios::app) << text; }

  StepFile file_ = StepFile::create().take();
  HeardTuner tuner_;
  CountingSetter setter_;
};

TEST_F(TuningRunTest, HearsAllThatTheJobWroteUpToItsEnd) {
  TuningRun run(file_, tuner_, setter_, system_clock());
  for (int i = 0; i < 100; ++i) write("\n");
  write("epoch\n\n");
  run.finish();
  run.finish();
  EXPECT_EQ(tuner_.steps, 101);
  EXPECT_EQ(tuner_.epochs, 1);
  EXPECT_EQ(tuner_.polls_at_end, 3) << "until it waits for nothing";
  EXPECT_EQ(setter_.restores, 1);
  EXPECT_EQ(tuner_.failure, "");
}

TEST_F(TuningRunTest, TellsTheTunerOfLinesThatAreNoSteps) {
  TuningRun run(file_, tuner_, setter_, system_clock());
  write(std::string(1'000'000, '\n'));
  run.finish();
  EXPECT_THAT(tuner_.ended, ::testing::HasSubstr("in bursts"));
  EXPECT_FALSE(tuner_.timed);
  EXPECT_GT(file_.refused(), 0U);
}

TEST_F(TuningRunTest, ALeaseThatIsLostIsAFailure) {
  setter_.kept = Error::of(ErrorCode::kUnavailable, "the agent does not answer");
  TuningRun run(file_, tuner_, setter_, system_clock());
  run.finish();
  EXPECT_EQ(tuner_.failure, "the agent does not answer");
}

TEST_F(TuningRunTest, ALeaseThatHasEndedHasRestoredEverything) {
  setter_.restored = Error::of(ErrorCode::kNotFound, "no such lease");
  TuningRun run(file_, tuner_, setter_, system_clock());
  run.finish();
  EXPECT_EQ(tuner_.failure, "");
}

}  // namespace
}  // namespace harpe::zeus
