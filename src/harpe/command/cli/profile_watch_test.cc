#include "harpe/command/cli/profile_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = ProfileWatch::State;

constexpr Instant kStart{1000};
constexpr ProfileWatch::Options kOptions{
    .between = Seconds{10}, .unheard_for = Seconds{60}, .slowdown_limit = 0.2};

std::string status(const std::string& phase, int registered, int clocks_left = -1,
                   int not_set = 0) {
  const std::string profiling =
      clocks_left < 0
          ? "null"
          : R"({"fraction": 0.5, "clocks": 24, "iterations_left": 90, "time_left_s": 170,
                            "slowdown": 0.062, "clocks_left": )" +
                std::to_string(clocks_left) + "}";
  return R"({"id": "x", "phase": ")" + phase + R"(", "ranks": 4, "ranks_registered": )" +
         std::to_string(registered) + R"(, "ranks_not_set": )" + std::to_string(not_set) +
         R"(, "ranks_missing": [{"data": 1, "stage": 1, "tensor": 0}], "data": 2, "stages": 2,
             "tensor": 1, "schedule": "1f1b", "micro_batches": 8, "iteration_time_s": 0.412,
             "profiling": )" +
         profiling + "}";
}

TEST(ProfileWatch, FollowsAJobFromItsFirstRankToItsProfile) {
  ProfileWatch watch(kOptions, kStart);
  EXPECT_THAT(watch.look("", kStart + Seconds{1}), IsEmpty());
  EXPECT_EQ(watch.state(), State::kNoRank);
  EXPECT_THAT(watch.look(status("registering", 3), kStart + Seconds{2}), IsEmpty());
  EXPECT_EQ(watch.state(), State::kGathering);
  EXPECT_THAT(watch.look(status("registering", 3), kStart + Seconds{13}),
              ElementsAre(HasSubstr("3 of 4 ranks are registered; missing: data 1, stage 1")));
  EXPECT_THAT(
      watch.look(status("profiling", 4, 24), kStart + Seconds{14}),
      ElementsAre(HasSubstr("1f1b, 2 pipelines x 2 stages, 8 micro-batches; measuring 24")));
  EXPECT_EQ(watch.gathered(), kStart + Seconds{14});
  EXPECT_THAT(watch.look(status("profiling", 4, 20), kStart + Seconds{20}), IsEmpty());
  EXPECT_THAT(watch.look(status("profiling", 4, 17), kStart + Seconds{24}),
              ElementsAre("7 of 24 clocks, iterations of 412.000 ms, training 6.2 % longer so far; "
                          "about 3 min to go"));
  EXPECT_THAT(watch.so_far(), HasSubstr("7 of 24 clocks are measured, about 90 iterations more"));
  EXPECT_THAT(watch.look(status("characterizing", 4), kStart + Seconds{25}), IsEmpty());
  EXPECT_EQ(watch.state(), State::kDone);
}

TEST(ProfileWatch, SaysThatNoClockIsSet) {
  ProfileWatch watch({.between = Seconds{10}, .as_is = true}, kStart);
  EXPECT_THAT(
      watch.look(status("profiling", 4, 1), kStart + Seconds{1}),
      ElementsAre(HasSubstr("measuring at the present clock of the GPUs: no clock is set")));
  EXPECT_THAT(watch.so_far(), HasSubstr("not every stage is measured"));
}

TEST(ProfileWatch, SaysOnceHowRanksComeWhereNoneDoes) {
  ProfileWatch watch(kOptions, kStart);
  EXPECT_THAT(watch.look("", kStart + Seconds{59}), IsEmpty());
  EXPECT_THAT(watch.look("", kStart + Seconds{61}), ElementsAre(HasSubstr("harpe.megatron")));
  EXPECT_THAT(watch.look("", kStart + Seconds{200}), IsEmpty());
  EXPECT_THAT(watch.so_far(), HasSubstr("no rank has registered: "));
}

TEST(ProfileWatch, TellsOfRefusedClocksInPlaceOfATimeToGo) {
  ProfileWatch watch(kOptions, kStart);
  watch.look(status("profiling", 4, 24), kStart);
  EXPECT_THAT(watch.look(status("profiling", 4, 24, 2), kStart + Seconds{11}),
              ElementsAre(HasSubstr("no clock is set on 2 ranks")));
  EXPECT_TRUE(watch.clocks_are_refused());
  watch.look(status("profiling", 4, 24), kStart + Seconds{12});
  EXPECT_FALSE(watch.clocks_are_refused());
}

TEST(ProfileWatch, RepeatsNoWarning) {
  ProfileWatch watch(kOptions, kStart);
  const std::string first = R"({"sequence": 1, "at": 1, "kind": "info", "text": "profiling"})";
  const std::string second =
      R"({"sequence": 2, "at": 2, "kind": "warning", "text": "policy\u001b"})";
  EXPECT_THAT(watch.warnings(R"({"events": [)" + first + "]}"), IsEmpty());
  EXPECT_THAT(watch.warnings(R"({"events": [)" + first + "," + second + "]}"),
              ElementsAre("policy?"));
  EXPECT_THAT(watch.warnings(R"({"events": [)" + first + "," + second + "]}"), IsEmpty());
}

TEST(ProfileWatch, MakesNothingOfWhatIsNoStatus) {
  ProfileWatch watch(kOptions, kStart);
  for (const char* strange : {"", "{", "[1]", "{\"ranks\": \"4\", \"profiling\": 7}"}) {
    EXPECT_THAT(watch.look(strange, kStart), IsEmpty()) << strange;
    EXPECT_THAT(watch.warnings(strange), IsEmpty()) << strange;
  }
  EXPECT_EQ(watch.state(), State::kNoRank);
}

TEST(PlanWords, SayAllThatTheJobSaysOfItsPipeline) {
  JobSpec spec;
  spec.shape = {.data = 2, .stages = 2, .tensor = 4};
  spec.schedule =
      *make_schedule("interleaved-1f1b", {.stages = 2, .micro_batches = 4, .chunks = 2});
  spec.transfers = {.mode = Transfers::Mode::kRendezvous,
                    .forward = {Seconds{0.003}, Seconds{0.003}, Seconds{0.003}},
                    .backward = {}};
  spec.fixed_times.optimizer = {Seconds{0.05}, Seconds{0.04}};
  spec.switch_latency = Seconds{0.01};
  EXPECT_THAT(plan_words(spec, spec.schedule.name, "p.csv", {Watts{83.642}, Watts{80}}),
              ElementsAre("harpe", "plan", "--profile", "p.csv", "--schedule", spec.schedule.name,
                          "--micro-batches", "4", "--chunks", "2", "--blocking-power", "83.64,80",
                          "--gpus-per-stage", "4", "--transfer-forward", "0.003", "--transfer-mode",
                          "rendezvous", "--optimizer", "0.05,0.04", "--switch-latency", "0.01",
                          "--out", "p-plan"));
  spec = {};
  spec.switch_latency = LatencyByClock({{Megahertz{1410}, Seconds{0.01}}});
  EXPECT_THAT(plan_words(spec, "p.schedule.json", "p.csv", {}),
              ElementsAre("harpe", "plan", "--profile", "p.csv", "--schedule", "p.schedule.json",
                          "--switch-latency", "p.latency.csv", "--out", "p-plan"));
  // A schedule file contains its number of micro-batches.
  EXPECT_THAT(plan_words({}, "p.schedule.json", "p.csv", {Watts{80}}),
              ElementsAre("harpe", "plan", "--profile", "p.csv", "--schedule", "p.schedule.json",
                          "--blocking-power", "80", "--out", "p-plan"));
}

TEST(Profile, CanBePlannedOnceEachInstructionHasTwoClocks) {
  const std::string head = "stage,instruction,frequency,time,energy\n0,forward,1410,1,3\n";
  const std::string more = "0,forward,1200,2,2\n0,backward,1410,1,3\n";
  EXPECT_FALSE(can_be_planned(Profile(), 1));
  EXPECT_FALSE(can_be_planned(*parse_profile(head + more, "p"), 1));
  const Profile both = *parse_profile(head + more + "0,backward,1200,2,2\n", "p");
  EXPECT_TRUE(can_be_planned(both, 1));
  EXPECT_FALSE(can_be_planned(both, 2));
  EXPECT_THAT(doubts_of(both, {Watts{1.5}}), IsEmpty());
  EXPECT_THAT(doubts_of(both, {Watts{2.5}}), ElementsAre(HasSubstr("3 W while they compute")));
  EXPECT_THAT(doubts_of(both, {Watts{0}}), ElementsAre(HasSubstr("draw 0 W while they wait")));
  std::string noisy = "stage,instruction,frequency,time,energy\n";
  for (int i = 0; i < 12; ++i) {
    const int clock = 1410 - 60 * i;
    const double off = i % 3 == 0 ? 1.2 : i % 3 == 1 ? 0.9 : 1.05;
    noisy +=
        "0,forward," + std::to_string(clock) + "," + std::to_string(off * 1410 / clock) + ",3\n";
  }
  EXPECT_THAT(doubts_of(*parse_profile(noisy, "p"), {Watts{1}}),
              ElementsAre(HasSubstr("measurements scatter by")));
  EXPECT_EQ(profile_summary(both), "1 stage, 2 instructions, 2 clocks from 1410 to 1200 MHz");
  EXPECT_EQ(profile_summary(*parse_profile(head, "p")), "1 stage, 1 instruction, at 1410 MHz");
}

}  // namespace
}  // namespace harpe::command
