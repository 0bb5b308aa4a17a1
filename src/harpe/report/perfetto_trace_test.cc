#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harpe/plan/profile/profile.h"
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

// Viewers sort counters by name: 10 comes after 2.
TEST(PerfettoTrace, CountersSortByTheNumberOfTheStage) {
  const auto counters = [](int stages) {
    TestPipeline pipeline = pipeline_with_transfers();
    pipeline.stages = stages;
    const Plan plan = make_plan(pipeline, [](int, InstructionKind, int) { return 1400; });
    std::map<std::string, int> stage_of;
    const Json trace = Json::parse(perfetto_trace(plan));
    for (const Json& event : trace["traceEvents"])
      if (event["ph"] == "C") stage_of[event["name"]] = event["tid"];
    return stage_of;
  };
  int expected = 0;
  for (const auto& [name, stage] : counters(12)) EXPECT_EQ(stage, expected++) << name;
  EXPECT_EQ(expected, 12);
  EXPECT_TRUE(counters(4).contains("power of stage 3"));
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

/// Returns the sum over all stages. Checks that no counter goes back in time.
double microjoules_of_counters(const Json& trace, const Plan& plan) {
  std::map<std::string, std::pair<double, double>> last;  // name -> (µs, W)
  double microjoules = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    auto& [time, watts] = last[event["name"]];
    const double now = event["ts"];
    EXPECT_GE(now, time) << "counters rise in time";
    microjoules += (now - time) * watts;
    time = now;
    watts = event["args"]["W"];
  }
  EXPECT_EQ(last.size(), plan.instructions.size());
  for (const auto& [name, end] : last) {
    EXPECT_NEAR(end.first, plan.iteration_time.value * 1e6, 1e-3) << name;
    EXPECT_EQ(end.second, 0) << name;
  }
  return microjoules;
}

TEST(PerfettoTrace, PowerCountersAddUpToTheEnergyOfTheIteration) {
  const Plan plan = plan_with_transfers();
  EXPECT_NEAR(
      microjoules_of_counters(Json::parse(perfetto_trace(plan)), plan) * 1e-6 * plan.gpus_per_stage,
      plan.iteration_energy.value, 1e-5 * plan.iteration_energy.value);
}

// An excerpt of any length keeps the time and energy of every stage, the slices of a stage follow
// each other, and it has about the requested number of instructions.
TEST(PerfettoTrace, AnExcerptKeepsTimeAndEnergyOfTheIteration) {
  TestPipeline pipeline = pipeline_with_transfers();
  pipeline.micro_batches = 40;
  const Plan plan = make_plan(pipeline, [](int stage, InstructionKind, int micro_batch) {
    return 1400 - 100 * stage - 15 * (micro_batch % 4);
  });
  const Json whole = Json::parse(perfetto_trace(plan));
  const std::size_t all = 3 * (2 * 40 + 1);
  for (const std::size_t most :
       {std::size_t{1}, std::size_t{3}, std::size_t{30}, std::size_t{100}, all - 1}) {
    SCOPED_TRACE(most);
    const Json trace = Json::parse(perfetto_trace(plan, most));
    EXPECT_NEAR(microjoules_of_counters(trace, plan) * 1e-6 * plan.gpus_per_stage,
                plan.iteration_energy.value, 1e-5 * plan.iteration_energy.value);
    std::map<int, double> ends;
    std::size_t kept = 0, left_out = 0;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      double& end = ends[event["tid"]];
      EXPECT_GE(event["ts"].get<double>(), end - 1e-2);
      end = event["ts"].get<double>() + event["dur"].get<double>();
      if (event["cat"] == "left_out") {
        left_out += std::stoul(event["name"].get<std::string>());
      } else {
        ++kept;
      }
    }
    EXPECT_EQ(kept + left_out, all);
    EXPECT_GE(kept, most / 3);
    EXPECT_LE(kept, most + 3 * 3) << "several begin at once";
    EXPECT_TRUE(trace["otherData"].contains("excerpt"));
  }
  EXPECT_EQ(perfetto_trace(plan, all), perfetto_trace(plan));
  EXPECT_FALSE(whole["otherData"].contains("excerpt"));
}

TEST(PerfettoTrace, AnExcerptHasBeginMiddleAndEnd) {
  TestPipeline pipeline{.stages = 4, .micro_batches = 200};
  const Plan plan = make_plan(pipeline, [](int, InstructionKind, int) { return 1400; });
  const Json trace = Json::parse(perfetto_trace(plan, 90));
  const double time = plan.iteration_time.value * 1e6;
  int thirds[3] = {0, 0, 0};
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "left_out") continue;
    const double at = event["ts"].get<double>() / time;
    if (at < 0.1) ++thirds[0];
    if (at > 0.4 && at < 0.6) ++thirds[1];
    if (at > 0.9) ++thirds[2];
  }
  for (const int count : thirds) EXPECT_NEAR(count, 30, 4);
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
