#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harpe/profile/profile.h"
#include "harpe/report/report.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

using Json = nlohmann::json;

TestPipeline pipeline_with_transfers() {
  TestPipeline pipeline{.stages = 3, .micro_batches = 7, .with_optimizer = true};
  pipeline.transfers = {.mode = Transfers::Mode::kRendezvous,
                        .forward = {{0.004}, {0.002}},
                        .backward = {{0.004}, {0.002}}};
  return pipeline;
}

Plan plan_with_transfers() {
  return make_plan(pipeline_with_transfers(), [](int stage, InstructionKind, int micro_batch) {
    return 1400 - 100 * stage - 15 * (micro_batch % 4);
  });
}

TEST(PerfettoTrace, HoldsEveryInstructionAtItsTime) {
  const Plan plan = plan_with_transfers();
  const Json trace = Json::parse(perfetto_trace(plan));
  std::vector<std::vector<Json>> slices(3);
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices[event["tid"].get<std::size_t>()].push_back(event);
  }
  for (std::size_t stage = 0; stage < 3; ++stage) {
    ASSERT_EQ(slices[stage].size(), plan.instructions[stage].size());
    double busy = 0, expected = 0;
    for (std::size_t i = 0; i < slices[stage].size(); ++i) {
      const Json& slice = slices[stage][i];
      const PlannedInstruction& instruction = plan.instructions[stage][i];
      EXPECT_NEAR(slice["ts"].get<double>(), instruction.start.value * 1e6, 6e-4);
      EXPECT_EQ(slice["cat"], name(instruction.kind));
      EXPECT_NEAR(slice["args"]["energy_J"].get<double>(), instruction.energy.value, 1e-6);
      EXPECT_EQ(slice["args"]["micro_batch"], instruction.micro_batch);
      if (instruction.clock.value > 0) {
        EXPECT_EQ(slice["args"]["clock_MHz"], instruction.clock.value);
      }
      busy += slice["dur"].get<double>();
      expected += instruction.time.value * 1e6;
    }
    EXPECT_NEAR(busy, expected, 6e-4 * static_cast<double>(slices[stage].size()));
  }
}

TEST(PerfettoTrace, HasWhatIsSetBesideAClock) {
  Plan plan = plan_with_transfers();
  EXPECT_EQ(perfetto_trace(plan).find("label"), std::string::npos);
  plan.instructions[1][0].knobs = {
      .memory_clock = {810}, .power_limit = {250}, .label = *Label::of("sm12")};
  int found = 0;
  const Json trace = Json::parse(perfetto_trace(plan));
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["args"].contains("label")) continue;
    ++found;
    EXPECT_EQ(event["args"]["memory_clock_MHz"], 810);
    EXPECT_EQ(event["args"]["power_limit_W"], 250);
    EXPECT_EQ(event["args"]["label"], "sm12");
  }
  EXPECT_EQ(found, 1);
}

TEST(PerfettoTrace, PowerCountersAddUpToTheEnergyOfTheIteration) {
  const Plan plan = plan_with_transfers();
  const Json trace = Json::parse(perfetto_trace(plan));
  std::map<std::string, std::pair<double, double>> last;  // name -> (µs, W)
  double microjoules = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    auto& [time, watts] = last[event["name"]];
    const double now = event["ts"];
    ASSERT_GE(now, time) << "counters rise in time";
    microjoules += (now - time) * watts;
    time = now;
    watts = event["args"]["W"];
  }
  EXPECT_EQ(last.size(), 3U);
  for (const auto& [name, end] : last) {
    EXPECT_NEAR(end.first, plan.iteration_time.value * 1e6, 1e-3) << name;
    EXPECT_EQ(end.second, 0) << name;
  }
  EXPECT_NEAR(microjoules * 1e-6 * plan.gpus_per_stage, plan.iteration_energy.value,
              1e-5 * plan.iteration_energy.value);
}

TEST(PerfettoTrace, NamesProcessAndStagesAndPairsTransfers) {
  Plan plan = plan_with_transfers();
  plan.job = "job \"1\"\n\xFF";
  const Json trace = Json::parse(perfetto_trace(plan));
  std::map<std::string, int> kinds, begun, ended;
  std::map<int, std::string> threads;
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 1);
    const std::string phase = event["ph"];
    ++kinds[phase];
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "job \"1\"\n\uFFFD");
    }
    if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
    if (phase == "b") ++begun[event["id"].dump()];
    if (phase == "e") ++ended[event["id"].dump()];
  }
  EXPECT_EQ(threads, (std::map<int, std::string>{{0, "stage 0"}, {1, "stage 1"}, {2, "stage 2"}}));
  EXPECT_EQ(kinds["b"], 2 * 2 * 7);
  EXPECT_EQ(begun, ended);
}

TEST(PerfettoTrace, SaysInItsNameThatAProfileIsSynthetic) {
  Plan plan = plan_with_transfers();
  const auto trace = [&] { return Json::parse(perfetto_trace(plan)); };
  const std::string before = trace()["traceEvents"][0]["args"]["name"];
  EXPECT_FALSE(trace()["otherData"].contains("note"));
  plan.synthetic = true;
  EXPECT_EQ(trace()["traceEvents"][0]["args"]["name"],
            before + " (synthetic profile, not measured)");
  EXPECT_EQ(trace()["otherData"]["note"], kSyntheticRemark);
}

TEST(PerfettoTrace, IsTheSameBytesTwice) {
  EXPECT_EQ(perfetto_trace(plan_with_transfers()), perfetto_trace(plan_with_transfers()));
}

TEST(PerfettoTrace, TakesAnEmptyPlan) {
  EXPECT_EQ(Json::parse(perfetto_trace({}))["traceEvents"].size(), 1U);
}

}  // namespace
}  // namespace harpe::report
