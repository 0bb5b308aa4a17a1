#pragma once
/// \file
/// The tuner without a profiling phase (tuner.h): a window a step.

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe {

class OnlineTuner final : public Tuner {
 public:
  OnlineTuner(TunerOptions options, OnlineOptimizer optimizer, KnobSetter& setter,
              WindowMeter& meter);

  void start() override {}
  void on(const StepEvent& event) override;
  void poll(Instant /*now*/) override {}
  void finish() override;
  bool waits() const override { return false; }
  bool profiles() const override { return failure_.empty() && trials_ended_.empty(); }
  void end_trials(const std::string& why, bool are_steps_timed) override;
  void fail(const Error& error) override;
  TuningResult result() const override;

 private:
  void end_step(Instant at);
  void set(std::size_t setting);

  TunerOptions options_;
  OnlineOptimizer optimizer_;
  KnobSetter& setter_;
  WindowMeter& meter_;
  StepLedger ledger_;
  SavingAccount account_;
  RunningMedian usual_;
  std::size_t setting_ = 0;
  std::int64_t steps_ = 0, epochs_ = 0;
  int since_switch_ = 0;               ///< steps
  std::optional<Instant> step_began_;  ///< a window is open
  std::optional<Measurement> last_;    ///< step, not told to the optimizer yet
  std::string failure_;
  std::vector<std::string> trials_ended_;
};

}  // namespace harpe
