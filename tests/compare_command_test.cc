// `harpe compare`: its figures equal those of `harpe plan`, and it names schedules that it cannot
// price.

#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "command_run.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CompareCommand : public CommandTest {
 protected:
  CompareCommand() { synth("profile.csv", {"--split-backward", "--recompute"}); }

  void synth(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.begin(), {"synth", "--stages", "3", "--out", path(name)});
    EXPECT_EQ(harpe_says(more).status, 0);
  }
  Said says(const std::string& command, std::vector<std::string> more,
            const std::string& profile = "profile.csv") const {
    more.insert(more.begin(),
                {command, path(profile), "--micro-batches", "6", "--blocking-power", "80"});
    return harpe_says(more);
  }
  command::Json compare(std::vector<std::string> more,
                        const std::string& profile = "profile.csv") const {
    more.emplace_back("--json");
    const Said said = says("compare", more, profile);
    EXPECT_EQ(said.status, 0) << said.err;
    return command::Json::parse(said.out);
  }
  command::Json plan(std::vector<std::string> more,
                     const std::string& profile = "profile.csv") const {
    more.emplace_back("--json");
    const Said said = says("plan", more, profile);
    EXPECT_EQ(said.status, 0) << said.err;
    return command::Json::parse(said.out);
  }
  static command::Json row(const command::Json& rows, const std::string& key,
                           const std::string& name) {
    for (const command::Json& one : rows) {
      if (one[key] == name) return one;
    }
    ADD_FAILURE() << name << " has no row";
    return {};
  }
};

/// The oracle of each schedule's row is a plan for that schedule only.
TEST_F(CompareCommand, EachSchedulesFiguresAreThoseOfItsPlan) {
  const command::Json rows = compare({"--policies", "none"})["schedules"];
  EXPECT_EQ(rows.size(), schedule_generators().size());
  const double own = row(rows, "schedule", "1f1b")["fastest"]["iteration_time_s"];
  for (const command::Json& one : rows) {
    const std::string name = one["schedule"];
    const command::Json plans = plan({"--schedule", name})["plans"];
    EXPECT_EQ(one["all_max"]["iteration_energy_j"], plans["all_max"]["iteration_energy_j"]) << name;
    EXPECT_EQ(one["fastest"]["iteration_energy_j"], plans["fastest"]["iteration_energy_j"]) << name;
    if (one["at_own_schedule"].is_null()) {
      EXPECT_GT(plans["fastest"]["iteration_time_s"], own) << name;
      continue;
    }
    EXPECT_LE(one["at_own_schedule"]["iteration_time_s"].get<double>(), own * (1 + 1e-9)) << name;
    EXPECT_LE(one["at_own_schedule"]["iteration_energy_j"].get<double>(),
              one["fastest"]["iteration_energy_j"].get<double>() * (1 + 1e-9))
        << name;
  }
}

/// No policy beats a plan of Harpe that ends as soon, and none is below the bound.
TEST_F(CompareCommand, KnowsThePoliciesThatOthersHavePublished) {
  synth("plain.csv", {});
  for (const std::vector<std::string>& goal : {std::vector<std::string>{"--slowdown", "0"},
                                               {"--slowdown", "5%"},
                                               {"--straggler", "1.2x"},
                                               {"--slowdown", "3%", "--switch-latency", "10ms"},
                                               {"--power-cap", "900W"}}) {
    SCOPED_TRACE(goal[1]);
    std::vector<std::string> options = {"--schedules", "none"};
    options.insert(options.end(), goal.begin(), goal.end());
    const command::Json rows = compare(options, "plain.csv")["policies"];
    for (const char* const policy :
         {"one clock per stage", "envpipe", "envpipe emulated", "perseus"}) {
      SCOPED_TRACE(policy);
      const command::Json one = row(rows, "policy", policy);
      ASSERT_FALSE(one.contains("missing")) << one["missing"];
      ASSERT_GT(one["curve"].size(), 0U);
      const double energy = one["iteration_energy_j"], time = one["iteration_time_s"];
      if (one["lower_bound_j"].is_number()) {
        EXPECT_GE(energy, one["lower_bound_j"].get<double>() * (1 - 1e-9));
      }
      std::vector<std::string> as_soon = {"--deadline", shortest(time * (1 + 1e-9)) + "s"};
      if (goal[0] == "--straggler") as_soon = goal;
      if (goal.size() > 2) as_soon.insert(as_soon.end(), goal.begin() + 2, goal.end());
      const command::Json plans = plan(as_soon, "plain.csv")["plans"];
      EXPECT_LE(plans["chosen"]["iteration_energy_j"].get<double>(), energy * (1 + 1e-6));
    }
    const command::Json perseus = row(rows, "policy", "perseus");
    EXPECT_LT(perseus["fastest_as_planned"]["iteration_time_s"],
              perseus["fastest"]["iteration_time_s"])
        << "its times are rounded down";
  }
  const command::Json zero_bubble =
      compare({"--schedules", "none", "--schedule", "zb-h1", "--policies", "envpipe"})["policies"];
  EXPECT_THAT(zero_bubble[0]["missing"].get<std::string>(), HasSubstr("EnvPipe is for"));
}

/// A schedule changes which stages wait, but not the computations: effective energy at all-max is
/// the same.
TEST_F(CompareCommand, EverySchedulesWorkIsTheSame) {
  for (const char* const profile : {"split.csv", "whole.csv", "chunked.csv"}) {
    std::vector<std::string> options = {"--noise", "0"};
    if (profile[0] == 's') options.emplace_back("--split-backward");
    if (profile[0] == 'c') options.insert(options.end(), {"--chunks", "2", "--split-backward"});
    synth(profile, options);
    const command::Json rows = compare({"--policies", "none", "--quick"}, profile)["schedules"];
    int priced = 0;
    double first = 0;
    for (const command::Json& one : rows) {
      if (one.contains("missing")) continue;
      ++priced;
      const command::Json& all_max = one["all_max"];
      // Effective energy: that of the iteration minus 80 W of each GPU over its whole time.
      const double work = all_max["iteration_energy_j"].get<double>() -
                          3 * 80 * all_max["iteration_time_s"].get<double>();
      if (priced == 1) first = work;
      EXPECT_NEAR(work, first, 1e-6 * first) << one["schedule"] << " of " << profile;
    }
    EXPECT_GE(priced, 5) << profile;
  }
}

TEST_F(CompareCommand, PoliciesAreThoseOfThePlan) {
  for (const std::vector<std::string>& objective : {std::vector<std::string>{"--slowdown", "5%"},
                                                    {"--least-energy"},
                                                    {"--straggler", "1.2x"},
                                                    {"--power-cap", "900"}}) {
    const command::Json said = compare([&] {
      auto all = objective;
      all.insert(all.end(), {"--schedules", "none", "--gpu", "a100-sxm"});
      return all;
    }());
    const command::Json planned = plan(objective);
    const command::Json harpe = row(said["policies"], "policy", "harpe");
    const command::Json& chosen = planned["plans"]["chosen"];
    EXPECT_EQ(harpe["iteration_energy_j"], chosen["iteration_energy_j"]) << objective[0];
    EXPECT_NEAR(harpe["saving"].get<double>(), chosen["saving_percent"].get<double>() / 100, 1e-9);
    EXPECT_NEAR(harpe["slowdown"].get<double>(), chosen["slowdown_percent"].get<double>() / 100,
                1e-9);
    EXPECT_GT(harpe["curve"].size(), 10U);
    for (const char* const rival : {"one clock", "one power limit"}) {
      const command::Json one = row(said["policies"], "policy", rival);
      EXPECT_EQ(one["source"], rival[4] == 'c' ? "profile" : "model of a100-sxm");
      // Harpe optimizes this measure: no rival that meets the objective needs less.
      if (one["meets_objective"] == true && objective[0] != "--power-cap") {
        EXPECT_GE(one["iteration_energy_j"].get<double>(),
                  harpe["iteration_energy_j"].get<double>() * 0.999)
            << rival << ' ' << objective[0];
      }
    }
  }
}

TEST_F(CompareCommand, LinesOfSummariesFitATerminal) {
  const auto expect_fits = [](const Said& said) {
    EXPECT_EQ(said.status, 0) << said.err;
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(command::display_width(line), 80U) << line;
  };
  const Said compared = says("compare", {"--schedules", "1f1b,gpipe,zb-h1"});
  expect_fits(compared);
  EXPECT_THAT(compared.out, ContainsRegex("\nschedule +J by .* activations\n"));
  const Said planned = says("plan", {"--straggler", "1.2x", "--points", "0"});
  expect_fits(planned);
  EXPECT_THAT(planned.out, HasSubstr("\n\nchosen: straggler 1.2 x all-max\n"));
  expect_fits(harpe_says({"profile", "check", path("profile.csv")}));
  // `profile check` comments on a stage that is a copy of another, and on a row that takes ten
  // times as long.
  std::string odd = read("profile.csv");
  std::istringstream rows(odd);
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with("0,")) odd += "3" + row.substr(1) + '\n';
  }
  const std::size_t time = odd.find(',', odd.find("\n1,forward,") + 11) + 1;
  odd.replace(time, 1, "9");
  const Said checked =
      harpe_says({"profile", "check", write("odd.csv", odd), "--blocking-power", "80"});
  expect_fits(checked);
  EXPECT_THAT(checked.out, AllOf(HasSubstr("copies, not"), HasSubstr("suspicious: ")));
}

TEST_F(CompareCommand, NamesWhatTheProfileCannotPrice) {
  synth("whole.csv", {});
  const command::Json rows = compare({"--policies", "none"}, "whole.csv")["schedules"];
  EXPECT_THAT(std::string(row(rows, "schedule", "zb-h1")["missing"]), HasSubstr("weight"));
  EXPECT_FALSE(row(rows, "schedule", "gpipe").contains("missing"));
  const Said said = says("compare", {"--schedules", "1f1b,zb-h1,interleaved-1f1b"}, "whole.csv");
  EXPECT_THAT(said.out, AllOf(HasSubstr("note: Transfers are assumed to be free"),
                              HasSubstr("takes an equal share")));
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("Not possible with this profile:\n  zb-h1: "),
                    HasSubstr("one power limit: the profile has no rows for power limits: "
                              "--gpu MODEL"),
                    Not(HasSubstr("gpipe"))));
  std::istringstream lines(said.out.substr(said.out.find("Not possible")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(said.out, HasSubstr("\n    "));  // continuation lines of a reason
  EXPECT_THAT(says("compare", {"--schedules", "1f1b,zb-h1,zb-h2"}, "whole.csv").out,
              HasSubstr("\n  zb-h1, zb-h2: no weight rows"))
      << "one sentence for one reason";
  const Said odd = harpe_says(
      {"compare", path("whole.csv"), "--micro-batches", "7", "--schedules", "interleaved-1f1b"});
  EXPECT_THAT(odd.out, HasSubstr("interleaved-1f1b: "));
}

TEST_F(CompareCommand, OthersAreOfTheSizeOfAScheduleInAFile) {
  ASSERT_EQ(harpe_says({"schedule", "convert", "1f1b", "--stages", "3", "--micro-batches", "6",
                        "--to", "json", "--out", path("own.json")})
                .status,
            0);
  const Said said = harpe_says({"compare", path("profile.csv"), "--blocking-power", "80",
                                "--schedule", path("own.json"), "--schedules", "gpipe", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(command::Json::parse(said.out)["schedules"],
            compare({"--policies", "none", "--schedules", "gpipe"})["schedules"]);
}

TEST_F(CompareCommand, TakesALimitOfTheProfileBeforeAModels) {
  const std::string csv = read("profile.csv");
  std::string limited = "stage,instruction,frequency,time,energy,power_limit\n";
  for (int stage = 0; stage < 4; ++stage) {
    for (const char* const kind : {"forward", "backward"}) {
      const std::string start = std::to_string(stage) + ',' + kind + ",1410,";
      limited += start + "0.05,20,\n" + start + "0.055,15,300\n";
    }
  }
  write("limited.csv", limited);
  const command::Json said =
      compare({"--schedules", "none", "--least-energy", "--gpu", "a100-sxm"}, "limited.csv");
  const command::Json one = row(said["policies"], "policy", "one power limit");
  EXPECT_EQ(one["source"], "profile");
  EXPECT_EQ(one["setting"], "300 W");
}

TEST_F(CompareCommand, WritesATableAndAPicture) {
  const Said said = says("compare", {"--schedules", "1f1b,zb-h1", "--out", path("out")});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(listing("out"),
              ElementsAre("comparison.json", "comparison.svg", "policies.csv", "schedules.csv"));
  EXPECT_THAT(read("out/comparison.svg"), AllOf(HasSubstr("Harpe"), HasSubstr("zb-h1")));
  EXPECT_THAT(read("out/schedules.csv"), AllOf(HasSubstr("\n1f1b,"), HasSubstr("\nzb-h1,")));
  EXPECT_THAT(read("out/policies.csv"), HasSubstr("\nharpe,profile,"));
  EXPECT_EQ(command::Json::parse(read("out/comparison.json"))["schedules"].size(), 2U);
}

TEST_F(CompareCommand, WritesOverNothingThatItReads) {
  std::filesystem::create_directory(path("mine"));
  std::filesystem::rename(path("profile.csv"), path("mine/schedules.csv"));
  const Said said = says("compare", {"--out", path("mine")}, "mine/schedules.csv");
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("would overwrite the input"));
}

TEST_F(CompareCommand, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(says("compare", {"--schedules", "zb-h3"}).err,
              AllOf(HasSubstr("unknown schedule 'zb-h3'"), HasSubstr("is 'zb-h1' meant?")));
  EXPECT_THAT(says("compare", {"--policies", "one_clok,tea"}).err,
              AllOf(HasSubstr("is 'one clock' meant?"), HasSubstr("unknown policy 'tea'")));
  EXPECT_EQ(says("compare", {"--policies", "none", "--schedules", "none"}).status, 2);
  EXPECT_EQ(says("compare", {"--schedules", "nowhere.csv"}).status, 0) << "the file has a row";
  EXPECT_THAT(says("compare", {"--schedules", "nowhere.csv"}).out, HasSubstr("nowhere.csv: "));
  EXPECT_THAT(says("compare", {"--gpu", "a10"}).err, HasSubstr("unknown GPU model 'a10'"));
  EXPECT_EQ(harpe_says({"compare"}).status, 2);
}

/// As in `harpe plan`: no plan is slower than the straggler, whose factor counts once.
TEST_F(CompareCommand, RivalsAreNoSlowerThanTheStraggler) {
  const command::Json rows =
      compare({"--schedules", "none", "--gpu", "a100-sxm", "--straggler", "1.1x"})["policies"];
  const double until = row(rows, "policy", "harpe")["iteration_time_s"];
  for (const char* const rival : {"one clock", "one power limit"}) {
    const command::Json one = row(rows, "policy", rival);
    EXPECT_EQ(one["meets_objective"], true) << rival;
    EXPECT_LE(one["iteration_time_s"].get<double>(), until * 1.001) << rival;
    EXPECT_GE(one["iteration_energy_j"].get<double>(),
              row(rows, "policy", "harpe")["iteration_energy_j"].get<double>())
        << rival;
  }
}

/// Existing files of a plan are not changed if a comparison is written to the same folder.
TEST_F(CompareCommand, LeavesThePlanBesideItAlone) {
  synth("whole.csv", {});
  ASSERT_EQ(says("plan", {"--points", "0", "--out", path("both")}, "whole.csv").status, 0);
  const auto before = listing("both");
  ASSERT_EQ(says("compare", {"--schedules", "1f1b", "--out", path("both")}, "whole.csv").status, 0);
  for (const std::string& name : before) EXPECT_THAT(listing("both"), Contains(name));
}

/// A job file of `harpe plan` may have options that a comparison does not have.
TEST_F(CompareCommand, TakesTheJobFileOfAPlan) {
  write("job.toml",
        "profile = \"profile.csv\"\nmicro-batches = 6\nblocking-power = 80\nslowdown = \"5%\"\n"
        "search-time = \"1h\"\nout = \"out\"\ncertificate = true\n");
  const Said said = harpe_says({"compare", path("job.toml"), "--schedules", "1f1b"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Policies for 1f1b, slowdown 5 %"));
  EXPECT_THAT(listing("out"), IsEmpty()) << "that is where the plan goes";
}

}  // namespace
}  // namespace harpe
