// `harpe verify` from the view of a reader of other people's plans: the proven claims, for given
// inputs.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "command_run.h"

namespace harpe {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VerifyCommand : public CommandTest {
 protected:
  VerifyCommand() {
    EXPECT_EQ(harpe_says({"synth", "--stages", "2", "--out", path("profile.csv")}).status, 0);
    write("job.toml", kJob);
    const Said made = harpe_says(
        {"plan", path("job.toml"), "--certificate", "--points", "0", "--out", path("out")});
    EXPECT_EQ(made.status, 0) << made.err;
  }

  Said verify(std::vector<std::string> more) const {
    more.insert(more.begin(), {"verify", path("out"), "--profile", path("profile.csv")});
    return harpe_says(more);
  }
  std::string certificate() const { return path("out/certificate.json"); }

  static constexpr const char* kJob =
      "profile = \"profile.csv\"\nmicro-batches = 4\nblocking-power = [80, 70]\n"
      "gpus-per-stage = 2\nload = 0.001\noptimizer = [0.002, 0]\n"
      "transfer-forward = 0.003\ntransfer-backward = 0.004\n";
};

TEST_F(VerifyCommand, SaysWhatWasProvenGivenWhat) {
  const Said said = verify({"--certificate", certificate()});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("schedule 1f1b, 2 stages, 4 micro-batches, 1 chunk a stage, 2 GPUs"),
                    HasSubstr("blocking power 80, 70 W"),
                    HasSubstr("transfers 0.003 s forward and 0.004 s backward, overlapped"),
                    HasSubstr("load 0.001 s, reduce none, optimizer 0.002, 0 s"),
                    HasSubstr("switch latency 0 s")));
  EXPECT_THAT(said.out, HasSubstr("9 fixed-time instructions without rows in the profile"));
  const json given = json::parse(verify({"--certificate", certificate(), "--json"}).out)["given"];
  EXPECT_EQ(given["micro_batches"], 4);
  EXPECT_EQ(given["blocking_power_w"], json({80.0, 70.0}));
  EXPECT_EQ(given["optimizer_s"], json({0.002, 0.0}));
  EXPECT_EQ(given["transfers"]["mode"], "overlapped");
  EXPECT_EQ(given["switch_latency_s"], 0.0);
  EXPECT_EQ(given["taken_from_plan"], 9);
  EXPECT_TRUE(json::parse(verify({"--json"}).out)["given"]["switch_latency_s"].is_null());
}

TEST_F(VerifyCommand, ThePlanOfAJobIsAcceptedForIt) {
  EXPECT_EQ(verify({"--job", path("job.toml"), "--certificate", certificate()}).status, 0);
  // The profile is the one in the job file.
  EXPECT_EQ(
      harpe_says({"verify", path("out"), "--job", path("job.toml"), "--certificate", certificate()})
          .status,
      0);
  const Said missing = harpe_says({"verify", path("out")});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("--profile is missing"));
}

struct Other {
  std::vector<std::string> options;
  const char* what;
};
class VerifyCommandForAnother : public VerifyCommand, public testing::WithParamInterface<Other> {};

TEST_P(VerifyCommandForAnother, IsRefused) {
  const auto& [options, what] = GetParam();
  std::vector<std::string> more = {"--certificate", certificate()};
  more.insert(more.end(), options.begin(), options.end());
  const Said said = verify(more);
  EXPECT_EQ(said.status, 1) << said.out;
  EXPECT_THAT(said.err, HasSubstr(what));
  // A key of the job file can also be overridden.
  more.insert(more.end(), {"--job", path("job.toml")});
  EXPECT_EQ(verify(more).status, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyCommandForAnother,
    testing::Values(
        Other{{"--schedule", "gpipe"}, "schedule: the plan is for 1f1b, not gpipe"},
        Other{{"--stages", "4"}, "stages: the plan is for 2, not 4"},
        Other{{"--micro-batches", "8"}, "micro-batches: the plan is for 4, not 8"},
        Other{{"--chunks", "2"}, "chunks: the plan is for 1, not 2"},
        Other{{"--gpus-per-stage", "1"}, "gpus-per-stage: the plan is for 2, not 1"},
        Other{{"--blocking-power", "80"}, "blocking-power: the plan is for 80, 70 W, not 80 W"},
        Other{{"--transfer-forward", "0"}, "transfer-forward: the plan is for 0.003 s, not none"},
        Other{{"--transfer-backward", "3ms"},
              "transfer-backward: the plan is for 0.004 s, not 0.003 s"},
        Other{{"--transfer-mode", "rendezvous"},
              "transfer-mode: the plan is for overlapped, not rendezvous"},
        Other{{"--load", "2ms"}, "load of stage 0: the plan is for 4 times 0.001 s, not 4 times"},
        Other{{"--reduce", "1ms"}, "reduce of stage 0: the plan is for none, not 1 time 0.001 s"},
        Other{{"--optimizer", "0"},
              "optimizer of stage 0: the plan is for 1 time 0.002 s, not none"},
        Other{{"--switch-latency", "10ms"}, "switch-latency: the plan is for 0 s, not 0.01 s"}),
    [](const auto& other) {
      std::string name = other.param.options.front().substr(2);
      std::erase(name, '-');
      return name;
    });

TEST_F(VerifyCommand, OfAJobThatSaysLessThePlanMayHoldNoMore) {
  write("less.toml",
        "profile = \"profile.csv\"\nmicro-batches = 4\nblocking-power = [80, 70]\n"
        "gpus-per-stage = 2\n");
  const Said said = verify({"--job", path("less.toml"), "--certificate", certificate()});
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("load of stage 0: the plan is for 4 times 0.001 s, not none"),
                    HasSubstr("transfer-forward"), HasSubstr("optimizer")));
}

// A schedule from a file may define a load itself, with its time in the profile.
TEST_F(VerifyCommand, ALoadOfTheScheduleItselfIsNoDifference) {
  write("own.json", R"({"name": "own", "placement": [0, 1], "ranks": [
    [{"op": "load"}, {"op": "forward", "stage": 0, "mb": 0}, {"op": "backward", "stage": 0, "mb": 0}],
    [{"op": "forward", "stage": 1, "mb": 0}, {"op": "backward", "stage": 1, "mb": 0}]]})");
  write("own.csv", read("profile.csv") + "0,load,,0.001,0.09\n");
  write("own.toml", "profile = \"own.csv\"\nschedule = \"./own.json\"\nblocking-power = 80\n");
  const Said made = harpe_says(
      {"plan", path("own.toml"), "--certificate", "--points", "0", "--out", path("own")});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::vector<std::string> verify = {"verify",        path("own"),
                                           "--job",         path("own.toml"),
                                           "--certificate", path("own/certificate.json")};
  const Said said = harpe_says(verify);
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, testing::Not(HasSubstr("are from the plan, unchecked")));
  std::vector<std::string> with_reduce = verify;
  with_reduce.insert(with_reduce.end(), {"--reduce", "1ms"});
  EXPECT_EQ(harpe_says(with_reduce).status, 1);
}

TEST_F(VerifyCommand, AnotherSwitchLatencyNeedsTheCertificateToTell) {
  const Said said = verify({"--switch-latency", "10ms"});
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.err, HasSubstr("does not state its switch latency"));
}

TEST_F(VerifyCommand, MaxGapIsThatToWhatIsProven) {
  const json out = json::parse(verify({"--certificate", certificate(), "--json"}).out);
  const double gap = out["gap_percent"].get<double>();
  EXPECT_GT(gap, 0);
  EXPECT_NEAR(
      gap,
      100 * (out["iteration_energy_j"].get<double>() / out["proven_bound_j"].get<double>() - 1),
      1e-9);
  EXPECT_TRUE(json::parse(verify({"--json"}).out)["gap_percent"].is_null());
  // The plan's own value of the bound does not count.
  json plan = json::parse(read("out/plan.json"));
  for (const double word : {-1e6, 0.0}) {
    plan["lower_bound_j"] = word;
    write("out/plan.json", plan.dump());
    EXPECT_NE(verify({"--certificate", certificate(), "--max-gap", std::to_string(gap / 2)}).status,
              0)
        << word;
  }
}

TEST_F(VerifyCommand, ACertificateThatProvesNothingIsNotShownAsAGap) {
  json plan = json::parse(read("out/plan.json"));
  plan.erase("lower_bound_j");
  write("out/plan.json", plan.dump());
  json proof = json::parse(read("out/certificate.json"));
  for (const char* key : {"start", "end"}) proof[key] = json::array();
  for (const char* key : {"loops", "transfers", "longest", "loss_unit_j"}) proof.erase(key);
  proof["flow_unit_w"] = 1e6;  // a flow too expensive for any instruction to use its time
  write("out/certificate.json", proof.dump());
  const Said said = verify({"--certificate", certificate()});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("gap not bounded"), HasSubstr("proves nothing")));
  EXPECT_TRUE(
      json::parse(verify({"--certificate", certificate(), "--json"}).out)["gap_percent"].is_null());
  EXPECT_EQ(verify({"--certificate", certificate(), "--max-gap", "50"}).status, 1);
}

/// Plans and profiles that do not match.
class VerifyCommandWithAnotherProfile : public CommandTest {
 protected:
  VerifyCommandWithAnotherProfile() {
    synth("whole", {"--stages", "4"});
    synth("split", {"--stages", "4", "--split-backward"});
    synth("other", {"--stages", "4", "--seed", "7"});
    synth("recompute", {"--stages", "4", "--recompute"});
    synth("long", {"--stages", "6"});
  }
  void synth(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.begin(), {"synth", "--out", path(name + ".csv")});
    EXPECT_EQ(harpe_says(more).status, 0);
  }
  /// Returns the output of `harpe verify` for a plan made from one profile, given another.
  std::string said(const std::string& made_from, const std::string& given,
                   const std::string& schedule = "1f1b") const {
    const Said made = harpe_says({"plan", "--profile", path(made_from + ".csv"), "--micro-batches",
                                  "4", "--blocking-power", "80", "--points", "0", "--quick",
                                  "--schedule", schedule, "--out", path("plan")});
    EXPECT_EQ(made.status, 0) << made.err;
    const Said said = harpe_says({"verify", path("plan"), "--profile", path(given + ".csv")});
    EXPECT_EQ(said.status, 1) << said.out;
    return said.err;
  }
  std::string refused(const std::string& why) const {
    return "error: " + path("plan") + ": the plan is not one of this profile: " + why + "\n";
  }
};

TEST_F(VerifyCommandWithAnotherProfile, SaysInOneSentenceWhatDoesNotFit) {
  const std::string splits =
      "the profile has weight rows, so that its backward rows are input gradients alone, and the "
      "plan runs no weight gradients";
  EXPECT_EQ(said("whole", "split"), refused(splits));
  EXPECT_EQ(said("split", "whole"),
            refused("the plan runs weight instructions, for which the profile has no rows"));
  EXPECT_EQ(said("split", "whole", "zb-h1"),
            refused("the plan runs weight instructions, for which the profile has no rows"));
  EXPECT_EQ(said("recompute", "whole", "recompute-1f1b"),
            refused("the plan runs recompute instructions, for which the profile has no rows"));
  EXPECT_EQ(said("recompute", "split", "recompute-1f1b"),
            refused("the plan runs recompute instructions, for which the profile has no rows"));
  EXPECT_EQ(said("long", "whole"), refused("the plan has 6 stages, the profile 4"));
  EXPECT_THAT(said("other", "whole"),
              AllOf(HasSubstr("is not one of this profile: "), HasSubstr("of 32 instructions")));
  EXPECT_THAT(said("whole", "long"),
              AllOf(HasSubstr("is not one of this profile: "), HasSubstr("of 32 instructions"),
                    HasSubstr("; the profile has 6 stages, the plan 4")));
}

// Their times would be for different work.
TEST_F(VerifyCommandWithAnotherProfile, NothingIsPredicted) {
  for (const auto& [made_from, given] :
       {std::pair("whole", "split"), {"split", "whole"}, {"long", "whole"}}) {
    said(made_from, given);
    const Said predicted =
        harpe_says({"predict", path("plan"), "--profile", path(given + std::string(".csv"))});
    EXPECT_EQ(predicted.status, 2);
    EXPECT_THAT(predicted.err, HasSubstr("the plan is not one of this profile: the "));
  }
}

}  // namespace
}  // namespace harpe
