#include "harpe/training/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "harpe/plan/profile/synth.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Wire, ASpecificationReadsBackTheSame) {
  JobSpec spec;
  spec.name = "gpt \"3\" \xff";
  spec.shape = {.data = 3, .stages = 4, .tensor = 2};
  spec.schedule = *interleaved_one_f_one_b({.stages = 4, .micro_batches = 8, .chunks = 2});
  spec.transfers.forward.assign(7, Seconds{0.001});
  spec.transfers.backward.assign(7, Seconds{0.002});
  spec.fixed_times.load.assign(4, Seconds{0.003});
  spec.fixed_times.optimizer = {Seconds{0.1}, Seconds{0}, Seconds{0}, Seconds{0.2}};
  spec.fit = true;
  spec.observe = true;
  spec.blocking_power = Watts{83.64};
  spec.switch_latency = Seconds{0.01};
  spec.profiling.lowest_clock = Megahertz{800};
  spec.profiling.slowdown_limit = 0.05;
  spec.profiling.as_is = true;
  spec.objective = {.kind = Objective::Kind::kPowerCap, .value = 1234.5};
  spec.profile = *synthesize({.stages = 4, .chunks = 2});
  const std::string text = job_spec_json(spec);
  const auto read = parse_job_spec(text);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(job_spec_json(*read), text);
  EXPECT_EQ(read->shape, spec.shape);
  EXPECT_EQ(read->objective, spec.objective);
  EXPECT_EQ(read->profiling, spec.profiling);
  EXPECT_EQ(read->schedule.lists, spec.schedule.lists);
  EXPECT_EQ(read->fixed_times, spec.fixed_times);
  EXPECT_EQ(read->blocking_power, spec.blocking_power);
  EXPECT_TRUE(read->fit);
  EXPECT_TRUE(read->observe);
}

TEST(Wire, LateClocksAreOneTimeOrATable) {
  const std::string text =
      R"({"stages": 3, "schedule": "1f1b", "micro_batches": 2, "switch_latency_s": )";
  const auto one = parse_job_spec(text + "0.01}");
  ASSERT_TRUE(one.ok()) << one.error().text();
  EXPECT_EQ(one->switch_latency, LatencyByClock(Seconds{0.01}));
  EXPECT_THAT(job_spec_json(*one), HasSubstr(R"("switch_latency_s":0.01)"));
  const auto table = parse_job_spec(text + R"("frequency,latency\n1410,0.01\n1170,0.13\n"})");
  ASSERT_TRUE(table.ok()) << table.error().text();
  EXPECT_EQ(table->switch_latency,
            LatencyByClock({{Megahertz{1170}, Seconds{0.13}}, {Megahertz{1410}, Seconds{0.01}}}));
  EXPECT_EQ(parse_job_spec(job_spec_json(*table))->switch_latency, table->switch_latency);
  for (const char* wrong :
       {"61}", "-1}", "true}", "{}}", "\"\"}", "\"0.01\"}", R"("frequency,latency\n1410,61\n"})"})
    EXPECT_FALSE(parse_job_spec(text + wrong).ok()) << wrong;
  EXPECT_THAT(parse_job_spec(text + "\"" + std::string(70'000, 'x') + "\"}").error().text(),
              HasSubstr("switch_latency_s: is longer than the 65536 bytes"));
}

TEST(Wire, BlockingPowerIsThatOfAllStagesOrOfEach) {
  const std::string text =
      R"({"stages": 3, "schedule": "1f1b", "micro_batches": 2, "blocking_power_w": )";
  const auto one = parse_job_spec(text + "80}");
  ASSERT_TRUE(one.ok()) << one.error().text();
  EXPECT_EQ(one->blocking_power->each(3), std::vector(3, Watts{80}));
  const auto each = parse_job_spec(text + "[80, 0, 90.5]}");
  ASSERT_TRUE(each.ok()) << each.error().text();
  EXPECT_EQ(each->blocking_power->each(3), (std::vector{Watts{80}, Watts{0}, Watts{90.5}}));
  EXPECT_EQ(parse_job_spec(job_spec_json(*each))->blocking_power, each->blocking_power);
  for (const char* wrong : {"[80, 90]}", "-1}", "\"80\"}", "[80, 90, -1]}", "[80, 90, null]}"})
    EXPECT_FALSE(parse_job_spec(text + wrong).ok()) << wrong;
}

TEST(Wire, OneTimeBesideComputationsIsThatOfAllStages) {
  const std::string text =
      R"({"stages": 3, "schedule": "1f1b", "micro_batches": 2, "reduce_s": 0.5, "load_s": )";
  const auto spec = parse_job_spec(text + "[0, 0.1, 0]}");
  ASSERT_TRUE(spec.ok()) << spec.error().text();
  EXPECT_EQ(spec->fixed_times.reduce, std::vector(3, Seconds{0.5}));
  EXPECT_EQ(spec->fixed_times.load[1], Seconds{0.1});
  EXPECT_TRUE(spec->fixed_times.optimizer.empty());
  for (const char* wrong : {"[0, 0.1]}", "-1}", "\"1\"}", "[1, 2, \"3\"]}"})
    EXPECT_FALSE(parse_job_spec(text + wrong).ok()) << wrong;
}

TEST(Wire, ANumberOfChunksThatTheScheduleCannotHaveIsRefused) {
  const std::string sizes = R"({"stages": 3, "micro_batches": 6, "schedule": )";
  const auto refused = parse_job_spec(sizes + R"("1f1b", "chunks": 2})");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("1f1b has 1 chunk a stage, not 2: remove"));
  EXPECT_THAT(parse_job_spec(sizes + R"("dualpipev", "chunks": 3})").error().text(),
              HasSubstr("dualpipev has 2 chunks a stage, not 3"));
  const std::string lists = schedule_json(*one_f_one_b({.stages = 3, .micro_batches = 6}));
  EXPECT_FALSE(parse_job_spec(R"({"stages": 3, "schedule": )" + lists + R"(, "chunks": 2})").ok());
  for (const char* rest : {R"("1f1b"})", R"("1f1b", "chunks": 1})", R"("dualpipev"})",
                           R"("interleaved-1f1b", "chunks": 3})"}) {
    EXPECT_TRUE(parse_job_spec(sizes + rest).ok()) << rest;
  }
  // Earlier versions stored such specifications.
  EXPECT_TRUE(parse_job_spec(sizes + R"("1f1b", "chunks": 2})", Unknown::kIgnored).ok());
}

TEST(Wire, TermsOfABillAreKept) {
  const std::string start = R"({"stages": 2, "micro_batches": 4, "schedule": "1f1b", "cluster": )";
  const auto spec = parse_job_spec(start + R"({"price": "0.10 EUR/kWh", "carbon": 400, "pue": 1.2,
                                              "hours": 100, "host_power": 1000}})");
  ASSERT_TRUE(spec.ok()) << spec.error().text();
  EXPECT_EQ(
      spec->cluster,
      R"({"price":"0.10 EUR/kWh","carbon":"400","pue":1.2,"hours":100.0,"host_power":1000.0})");
  EXPECT_EQ(parse_job_spec(job_spec_json(*spec))->cluster, spec->cluster);
  EXPECT_TRUE(parse_job_spec(start + R"({"carbon": "DE", "gpus_per_node": 4}})").ok());
  for (const char* wrong :
       {R"({"price": "100"}})", R"({"price": 0.1}})", R"({"carbon": "file:/etc/passwd"}})",
        R"({"carbon": "electricity-maps:DE"}})", R"({"carbon": "XQ"}})", R"({"carbon": true}})",
        R"({"pue": 0.5}})", R"({"hours": 0}})", R"({"host_power": -1}})",
        R"({"gpus_per_node": 0}})", R"({"pricee": "0.10/kWh"}})", R"({"pipelines": 2}})",
        R"(1})"}) {
    const auto refused = parse_job_spec(start + wrong);
    EXPECT_FALSE(refused.ok()) << wrong;
  }
  JobSpec made = *spec;
  made.cluster = R"({"pue": 0.5})";
  EXPECT_THAT(validate(made).error().text(), HasSubstr("cluster: "));
}

TEST(Wire, ASpecificationMayNameItsSchedule) {
  const auto spec = parse_job_spec(
      R"({"data": 2, "stages": 4, "schedule": "1f1b", "micro_batches": 8, "objective": {"slowdown": 0.1}})");
  ASSERT_TRUE(spec.ok()) << spec.error().text();
  EXPECT_EQ(spec->schedule.lists, one_f_one_b({.stages = 4, .micro_batches = 8})->lists);
  EXPECT_EQ(spec->objective.value, 0.1);
}

TEST(Wire, EveryErrorOfASpecificationIsNamed) {
  const auto text_of = [](const std::string& json) {
    const auto spec = parse_job_spec(json);
    return spec.ok() ? std::string() : spec.error().text();
  };
  const std::string several = text_of(
      R"({"data": 0, "stages": 4, "schedule": "1f1b", "micro_batches": 8, "profilin": {},
          "objective": {"slowdown": 0.1, "deadline_s": 2}})");
  EXPECT_NE(several.find("data"), std::string::npos);
  EXPECT_NE(several.find("profilin"), std::string::npos);
  EXPECT_NE(several.find("exactly one of"), std::string::npos);
  EXPECT_NE(text_of(R"({"stages": 2})").find("schedule"), std::string::npos);
  EXPECT_NE(text_of(R"({"stages": 2, "schedule": "1f1b"})").find("micro_batches"),
            std::string::npos);
  EXPECT_NE(text_of(R"({"stages": 2, "schedule": {"ranks": [[]]}})"), "");
  EXPECT_NE(text_of(R"({"data": 262144, "stages": 2, "schedule": "1f1b", "micro_batches": 2})")
                .find("ranks"),
            std::string::npos);
  EXPECT_NE(text_of(R"({"stages": 2000, "schedule": "1f1b", "micro_batches": 2000})")
                .find("instructions"),
            std::string::npos);
  EXPECT_NE(text_of("[]"), "");
  EXPECT_NE(text_of("{"), "");
}

TEST(Wire, AProfileHasOneMemoryClockAndOnePowerLimitForEachStage) {
  const auto valid = [](const std::string& rows) {
    JobSpec spec;
    spec.shape.stages = 2;
    spec.schedule = *one_f_one_b({.stages = 2, .micro_batches = 2});
    spec.profile = *parse_profile(
        "stage,instruction,frequency,memory_frequency,power_limit,label,time,energy\n" + rows, "p");
    const Status status = validate(spec);
    return status.ok() ? std::string() : status.error().text();
  };
  EXPECT_EQ(valid("0,forward,1410,1215,250,a,1,20\n0,forward,1410,1215,250,b,2,10\n"
                  "0,backward,900,1215,250,,2,10\n1,forward,1410,,,,1,20\n"),
            "");
  for (const char* rows :
       {"0,forward,1410,,,,1,20\n1,forward,1410,1215,,,1,20\n"
        "1,forward,1410,810,,,2,10\n",
        "0,forward,1410,,,,1,20\n1,forward,1410,,250,,1,20\n1,backward,1410,,,,2,10\n"}) {
    EXPECT_THAT(valid(rows), HasSubstr("several memory clocks or power limits at stage 1"));
  }
}

TEST(Wire, AnObjectiveWhoseValueIsWrongHasThatErrorAlone) {
  for (const char* text : {R"({"slowdown": "5%"})", R"({"slowdown": -0.1})",
                           R"({"power_cap_w": 0})", R"({"least_energy": 1})"}) {
    const auto objective = parse_objective(text);
    ASSERT_FALSE(objective.ok()) << text;
    EXPECT_EQ(objective.error().diagnostics.size(), 1U) << objective.error().text();
    EXPECT_EQ(objective.error().text().find("exactly one"), std::string::npos)
        << objective.error().text();
  }
  for (const char* text :
       {"{}", R"({"least_energy": false})", R"({"slowdown": 0, "deadline_s": 1})"}) {
    EXPECT_NE(parse_objective(text).error().text().find("exactly one"), std::string::npos) << text;
  }
}

TEST(Wire, ReportsAndRegistrationsReadBackTheSame) {
  const RankRegistration rank{.coordinates = {1, 2, 3},
                              .session = "abc",
                              .run = "r",
                              .gpu = "NVIDIA A40",
                              .clocks = {Megahertz{1740}, Megahertz{1725}},
                              .simulated = true,
                              .asks_ahead = true};
  const auto read = parse_rank_registration(rank_registration_json(rank));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(rank_registration_json(*read), rank_registration_json(rank));
  EXPECT_TRUE(read->simulated);
  EXPECT_TRUE(read->asks_ahead);

  IterationReport report;
  report.coordinates = {1, 2, 3};
  report.session = "abc";
  report.iteration = 12;
  report.version = 3;
  report.known = 4;
  report.reached = 14;
  report.time = Seconds{1.25};
  report.energy.value = std::nan("");
  report.throttled = true;
  report.clock = Megahertz{1755};
  report.refusal = "no memory clocks";
  report.instructions = {{.kind = InstructionKind::kBackward,
                          .chunk = 1,
                          .count = 8,
                          .time = Seconds{0.4},
                          .energy = Joules{90},
                          .energy_error = Joules{1}}};
  const std::string text = iteration_report_json(report);
  const auto same = parse_iteration_report(text);
  ASSERT_TRUE(same.ok()) << same.error().text();
  EXPECT_EQ(iteration_report_json(*same), text);
  EXPECT_TRUE(std::isnan(same->energy.value));
  EXPECT_EQ(same->refusal, report.refusal);
  EXPECT_EQ(same->reached, 14);
  EXPECT_EQ(same->clock, Megahertz{1755});

  // If "known" is left out, it is the version itself.
  const auto bare = parse_iteration_report(
      R"({"session": "a", "iteration": 0, "version": 7, "time_s": 1, "instructions": []})");
  ASSERT_TRUE(bare.ok()) << bare.error().text();
  EXPECT_EQ(bare->known, 7U);
  EXPECT_EQ(bare->reached, -1);
  for (
      const char* bad :
      {R"({"session": "a", "iteration": -1, "time_s": 1})",
       R"({"session": "a", "iteration": 1e300, "time_s": 1})",
       R"({"session": "a", "iteration": 1, "time_s": 0})", R"({"session": "a", "iteration": 1})",
       R"({"session": "a", "iteration": 1, "time_s": "1"})",
       R"({"session": "a", "iteration": 1, "time_s": 1, "instructions": [{"name": "sleep", "count": 1, "time_s": 1}]})",
       R"({"session": "a", "iteration": 1, "time_s": 1, "instructions": {}})"}) {
    EXPECT_FALSE(parse_iteration_report(bad).ok()) << bad;
  }
}

TEST(Wire, AssignmentsReadBackTheSame) {
  const std::vector<StageAssignment> assignments = {{.version = 4,
                                                     .from_iteration = 17,
                                                     .purpose = StageAssignment::Purpose::kProfile,
                                                     .clocks = {Megahertz{1200}}},
                                                    {.version = 5,
                                                     .from_iteration = 19,
                                                     .purpose = StageAssignment::Purpose::kPlan,
                                                     .clocks = {Megahertz{1200}, Megahertz{0}}}};
  const auto read = parse_rank_response(rank_response_json({}, assignments_json(assignments)));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(assignments_json(read->assignments), assignments_json(assignments));
  EXPECT_FALSE(parse_rank_response(
                   R"({"assignments": [{"version": 1, "from_iteration": 0, "clocks_mhz": []}]})")
                   .ok());
}

TEST(Wire, KnobsOfAssignmentsReadBackTheSame) {
  const Knobs slow{.memory_clock = {810}, .power_limit = {250.5}, .label = *Label::of("sm12")};
  const std::vector<StageAssignment> assignments = {
      {.version = 4,
       .purpose = StageAssignment::Purpose::kPlan,
       .clocks = {{1200}, {0}, {1200}, {900}},
       .knobs = {slow, {}, {.label = *Label::of("a:b/c")}, slow}},
      {.version = 5, .clocks = {{1200}, {900}}, .knobs = {{}, {}}}};
  const std::string text = assignments_json(assignments);
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("knobs":[{}, {"memory_frequency_mhz": 810, "power_limit_w": 250.5, "label": "sm12"}, )"
          R"({"label": "a:b/c"}],"knobs_of":[1,0,2,1]})"));
  const auto read = parse_rank_response(rank_response_json({}, text));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->assignments[0].knobs, assignments[0].knobs);
  EXPECT_THAT(read->assignments[1].knobs, IsEmpty()) << "none sets anything";
  EXPECT_EQ(assignments_json(read->assignments), text);
}

TEST(Wire, KnobsThatMakeNoSenseAreNamed) {
  for (const char* wrong :
       {R"("knobs": [{}])", R"("knobs_of": [0, 0])", R"("knobs": [{}], "knobs_of": [0])",
        R"("knobs": [{}], "knobs_of": [0, 1])", R"("knobs": [{}], "knobs_of": [0, -1])",
        R"("knobs": [{"label": ""}], "knobs_of": [0, 0])",
        R"("knobs": [{"label": "two words"}], "knobs_of": [0, 0])",
        R"("knobs": [{"memory_frequency_mhz": 0}], "knobs_of": [0, 0])",
        R"("knobs": [{"power_limit_w": 1e9}], "knobs_of": [0, 0])",
        R"("knobs": [{"sms": 12}], "knobs_of": [0, 0])", R"("knobs": {}, "knobs_of": [0, 0])"}) {
    const auto read = parse_rank_response(
        std::string(R"({"assignments": [{"version": 1, "from_iteration": 0, "purpose": "plan", )"
                    R"("clocks_mhz": [900, 800], )") +
        wrong + "}]}");
    EXPECT_FALSE(read.ok()) << wrong;
  }
}

TEST(Wire, AResponseReadsBackTheSame) {
  const RankResponse response{.rank = 3,
                              .version = 0,
                              .incarnation = "a\"b",
                              .epoch = 7,
                              .start = 2,
                              .specification = "d1"};
  const std::string text = rank_response_json(response, assignments_json({}));
  EXPECT_EQ(text, R"({"rank":3,"version":0,"incarnation":"a\"b","epoch":7,"start":2,)"
                  R"("specification":"d1","assignments":[]})");
  const auto read = parse_rank_response(text);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->rank, 3);
  EXPECT_EQ(read->version, 0U);
  EXPECT_EQ(read->incarnation, response.incarnation);
  EXPECT_EQ(read->epoch, response.epoch);
  EXPECT_EQ(read->start, response.start);
  EXPECT_EQ(read->specification, response.specification);
  EXPECT_EQ(rank_response_json({}, ""), "{}") << "what is not said is left out";
  for (const char* wrong : {R"([])", R"({"rank": -1})", R"({"rank": "x"})", R"({"version": -1})",
                            R"({"epoch": 0.5})", R"({"assignments": {}})"}) {
    EXPECT_FALSE(parse_rank_response(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace harpe::training
