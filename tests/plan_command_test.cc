// `harpe plan` from input files to output files, and the commands that read its output.

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "command_run.h"
#include "harpe/base/digest.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/profile/latency_table.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class PlanCommand : public CommandTest {
 protected:
  PlanCommand() {
    EXPECT_EQ(harpe_says({"synth", "--stages", "4", "--out", path("profile.csv")}).status, 0);
  }

  /// Runs `harpe plan` on the profile with 6 micro-batches. Returns its sentences with each one
  /// joined to one line; they are wrapped at column 80.
  Said plan(std::vector<std::string> more) const {
    const std::vector<std::string> start = {"plan",
                                            "--profile",
                                            path("profile.csv"),
                                            "--micro-batches",
                                            micro_batches_,
                                            "--blocking-power",
                                            "83.64"};
    more.insert(more.begin(), start.begin(), start.end());
    Said said = harpe_says(more);
    said.out = std::regex_replace(said.out, std::regex("\n  (?=[^ ])"), " ");
    return said;
  }
  json summary(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Said said = plan(std::move(more));
    EXPECT_EQ(said.status, 0) << said.out;
    return json::parse(said.out);
  }
  static double chosen(const json& summary, const std::string& figure) {
    return summary["plans"]["chosen"][figure].get<double>();
  }

  std::string micro_batches_ = "6";
};

/// With late clocks the search is long: under sanitizers a small pipeline is used.
class PlanCommandWithLateClocks : public PlanCommand {
 protected:
  PlanCommandWithLateClocks() {
    if (!HARPE_UNDER_SANITIZERS) return;
    EXPECT_EQ(harpe_says({"synth", "--stages", "2", "--out", path("profile.csv")}).status, 0);
    micro_batches_ = "2";
  }
};

TEST_F(PlanCommand, WritesEveryFileAndTheCheckerAcceptsThem) {
  const Said said =
      plan({"--slowdown", "3", "--certificate", "--points", "5", "--out", path("out")});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(listing("out"), ElementsAre("certificate.json", "freqs_pipeline_00000.py",
                                          "frontier.json", "frontier.svg", "pipeline.svg",
                                          "plan.json", "report.html", "trace.json"));
  EXPECT_THAT(said.out, AllOf(HasSubstr("all-max"), HasSubstr("chosen (slowdown 3 %)"),
                              HasSubstr("out/report.html")));
  EXPECT_EQ(json::parse(read("out/plan.json"))["format"], "harpe.plan/1");
  EXPECT_EQ(json::parse(read("out/frontier.json"))["format"], "harpe.frontier/1");
  EXPECT_TRUE(json::accept(read("out/trace.json")));
  EXPECT_THAT(read("out/report.html"), AllOf(HasSubstr("<html"), HasSubstr("</html>")));
  EXPECT_THAT(read("out/frontier.svg"), HasSubstr("</svg>"));

  const Said verified =
      harpe_says({"verify", path("out/plan.json"), "--profile", path("profile.csv"),
                  "--certificate", path("out/certificate.json"), "--max-gap", "1"});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, AllOf(HasSubstr("accepted"), HasSubstr("certificate proves")));
}

TEST_F(PlanCommand, TheSameInputGivesTheSameBytes) {
  for (const char* out : {"a", "b"}) {
    ASSERT_EQ(plan({"--certificate", "--points", "3", "--out", path(out)}).status, 0);
  }
  for (const std::string& name : listing("a")) {
    EXPECT_EQ(read("a/" + name), read("b/" + name)) << name;
  }
}

TEST_F(PlanCommand, TheReportSaysWhatItWasMadeOf) {
  ASSERT_EQ(plan({"--points", "0", "--job", "two words", "--out", path("out")}).status, 0);
  const std::string page = read("out/report.html");
  const auto frontier = json::parse(read("out/frontier.json"));
  EXPECT_THAT(page, AllOf(HasSubstr("<code>harpe plan --profile " + path("profile.csv") +
                                    " --micro-batches 6 --blocking-power 83.64 --points 0 --job "
                                    "&#39;two words&#39;</code>"),
                          HasSubstr(digest_text(fnv1a(read("profile.csv")))),
                          HasSubstr(frontier["inputs_digest"].get<std::string>())));
}

// One stage, two clocks: enough instructions to count as large, planned at once.
TEST_F(PlanCommand, OfALargePipelineTheTraceIsAnExcerptUnlessAllOfItIsAskedFor) {
  const std::string profile = write("one.csv",
                                    "stage,instruction,frequency,time,energy\n"
                                    "0,forward,1410,0.05,20\n0,forward,900,0.07,15\n"
                                    "0,backward,1410,0.1,40\n0,backward,900,0.14,30\n");
  const auto traced = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"plan",     "--profile", profile,   "--micro-batches",  "8200",
                                    "--points", "0",         "--quick", "--blocking-power", "80",
                                    "--out",    path("out")};
    all.insert(all.end(), more.begin(), more.end());
    const Said said = harpe_says(all);
    EXPECT_EQ(said.status, 0) << said.err;
    const auto trace = json::parse(read("out/trace.json"));
    const auto is_instruction = [](const json& event) {
      return event["ph"] == "X" && event["cat"] != "left_out";
    };
    return std::pair(said.out, std::ranges::count_if(trace["traceEvents"], is_instruction));
  };
  const auto [said, kept] = traced({});
  EXPECT_THAT(said, HasSubstr("768 of 16400 instructions:\n  --whole-trace writes all of them"));
  EXPECT_EQ(kept, 3 * 768);
  const auto [said_whole, all] = traced({"--whole-trace"});
  EXPECT_THAT(said_whole, Not(HasSubstr("whole-trace")));
  EXPECT_EQ(all, 16'400);
  EXPECT_EQ(harpe_says({"verify", path("out/plan.json"), "--profile", profile}).status, 0);
}

TEST_F(PlanCommand, WhateverIsMadeOfASyntheticProfileSaysSo) {
  const std::string remark(kSyntheticRemark);
  const std::string start = "Synthetic profile: times and energies come from a model of a GPU, ";
  const std::vector<std::string> files = {"plan.json",   "frontier.json", "freqs_pipeline_00000.py",
                                          "trace.json",  "frontier.svg",  "report.html",
                                          "pipeline.svg"};
  const std::vector<std::string> options = {"--load", "1ms", "--fit", "--points", "3", "--out"};
  const auto with = [&](const char* out) {
    std::vector<std::string> all = options;
    all.push_back(path(out));
    return all;
  };
  const auto of_plan = [&](const char* command) {
    return harpe_says({command, path("synthetic/plan.json"), "--profile", path("profile.csv")});
  };
  const auto is_marked = [&](const std::string& name) {
    const std::string text = read(name);
    return text.find("\"synthetic\": true") != std::string::npos ||
           text.find(remark) != std::string::npos;
  };
  EXPECT_THAT(plan(with("synthetic")).out, StartsWith(start));
  EXPECT_EQ(summary({})["synthetic"], true);
  for (const std::string& name : files) EXPECT_TRUE(is_marked("synthetic/" + name)) << name;
  EXPECT_THAT(read("synthetic/profile.csv"), StartsWith("# Synthetic profile"));
  EXPECT_THAT(of_plan("predict").out, StartsWith(start));
  EXPECT_THAT(harpe_says({"verify", path("synthetic/plan.json"), "--profile",
                          path("synthetic/profile.csv")})
                  .out,
              AllOf(StartsWith(start), HasSubstr("accepted")));
  EXPECT_THAT(harpe_says({"profile", "check", path("profile.csv")}).out, StartsWith(start));

  // The same rows as from a measurement.
  const std::string csv = read("profile.csv");
  write("profile.csv", csv.substr(csv.find("stage,")));
  EXPECT_THAT(plan(with("measured")).out, Not(HasSubstr(start)));
  EXPECT_EQ(summary({})["synthetic"], false);
  for (const std::string& name : files) EXPECT_FALSE(is_marked("measured/" + name)) << name;
  EXPECT_THAT(harpe_says({"profile", "check", path("profile.csv")}).out, Not(HasSubstr(start)));
}

// Returns a profile computed from integers only, so that it is the same everywhere.
std::string integer_profile(int stages) {
  const auto decimal = [](std::int64_t millionths) {
    std::string digits = std::to_string(1'000'000 + millionths % 1'000'000);
    digits[0] = '.';
    return std::to_string(millionths / 1'000'000) + digits;
  };
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < stages; ++stage) {
    for (const bool forward : {true, false}) {
      for (std::int64_t clock = 1410; clock >= 900; clock -= 30) {
        const std::int64_t size = (forward ? 50 : 97) + stage * 7 % 4;
        const std::int64_t microseconds = size * (400 + 600 * 1410 / clock);
        const std::int64_t milliwatts =
            150'000 + 250'000 * clock * clock / 1410 * clock / 1'988'100;
        csv += std::to_string(stage) + (forward ? ",forward," : ",backward,") +
               std::to_string(clock) + "," + decimal(microseconds) + "," +
               decimal(microseconds * milliwatts / 1000) + "\n";
      }
    }
  }
  return csv;
}

// Runs in builds of two compilers with different optimisation. Intended changes of solver or
// formats need new digests here.
TEST_F(PlanCommand, EveryCompilerGivesTheSameBytes) {
  const std::string profile = write("integers.csv", integer_profile(4));
  ASSERT_EQ(harpe_says({"plan", "--profile", profile, "--micro-batches", "16", "--blocking-power",
                        "83.64", "--slowdown", "4", "--certificate", "--points", "5", "--out",
                        path("out")})
                .status,
            0);
  EXPECT_EQ(fnv1a(read("out/plan.json")), 6333582519636909817U);
  EXPECT_EQ(fnv1a(read("out/certificate.json")), 12133300922219807172U);
  EXPECT_EQ(fnv1a(read("out/frontier.json")), 7578594633107896960U);
  EXPECT_EQ(fnv1a(read("out/freqs_pipeline_00000.py")), 17095020142280508868U);
  ASSERT_EQ(harpe_says({"plan", "--profile", profile, "--micro-batches", "16", "--blocking-power",
                        "83.64", "--certificate", "--search-windows", "3000", "--points", "0",
                        "--out", path("searched")})
                .status,
            0);
  EXPECT_EQ(fnv1a(read("searched/plan.json")), 6437824366030707829U);
  EXPECT_EQ(fnv1a(read("searched/certificate.json")), 1568490170451928011U);
}

/// Returns the rows of a profile, with the labels "wide" (unchanged) and "narrow" (slower, less
/// energy).
std::string labelled(const std::string& csv) {
  std::istringstream lines(csv);
  std::string text, line;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
      if (c == ',') {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
    const std::string start = cells[0] + "," + cells[1] + "," + cells[2] + ",";
    if (cells[0] == "stage") {
      text += start + "configuration,time,energy\n";
      continue;
    }
    text += start + "wide," + cells[3] + "," + cells[4] + "\n";
    text += start + "narrow," + std::to_string(std::stod(cells[3]) * 1.1) + "," +
            std::to_string(std::stod(cells[4]) * 0.95) + "\n";
  }
  return text;
}

TEST_F(PlanCommand, ChoosesLabelsBesideClocks) {
  const std::string plain = integer_profile(4);
  write("profile.csv", plain);
  const double without = chosen(summary({"--slowdown", "10"}), "iteration_energy_j");
  const std::vector<std::string> options = {"--slowdown", "10",    "--certificate", "--points",
                                            "3",          "--out", path("out")};
  ASSERT_EQ(plan(options).status, 0);
  EXPECT_TRUE(std::filesystem::exists(path("out/freqs_pipeline_00000.py")));

  write("profile.csv", labelled(plain));
  EXPECT_LT(chosen(summary({"--slowdown", "10"}), "iteration_energy_j"), without);
  const Said said = plan(options);
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("freqs_pipeline_00000.py is not written"));
  EXPECT_FALSE(std::filesystem::exists(path("out/freqs_pipeline_00000.py")));
  std::string document = read("out/plan.json");
  EXPECT_THAT(document,
              AllOf(HasSubstr("\"label\": \"wide\""), HasSubstr("\"label\": \"narrow\"")));
  const auto verified = [&] {
    return harpe_says({"verify", path("out/plan.json"), "--profile", path("profile.csv"),
                       "--certificate", path("out/certificate.json"), "--max-gap", "1"});
  };
  EXPECT_EQ(verified().status, 0) << verified().err;
  EXPECT_EQ(harpe_says({"predict", path("out/plan.json"), "--profile", path("profile.csv")}).status,
            0);
  EXPECT_THAT(harpe_says({"profile", "check", path("profile.csv")}).out,
              HasSubstr("stage 0 forward, narrow"));

  document.replace(document.find("\"narrow\""), 8, "\"wide\"");
  write("out/plan.json", document);
  EXPECT_EQ(verified().status, 1);
  EXPECT_THAT(verified().err, HasSubstr("in the profile, not"));
}

TEST_F(PlanCommand, APlanForFittedCurvesComesWithThem) {
  ASSERT_EQ(plan({"--fit", "--certificate", "--points", "0", "--out", path("out")}).status, 0);
  const Said verified =
      harpe_says({"verify", path("out/plan.json"), "--profile", path("out/profile.csv"),
                  "--certificate", path("out/certificate.json")});
  EXPECT_EQ(verified.status, 0) << verified.err;
}

TEST_F(PlanCommand, TheCertificateOfAnEarlierPlanIsKeptAsideAndProvesNothingOfTheNewOne) {
  ASSERT_EQ(plan({"--certificate", "--points", "0", "--out", path("out")}).status, 0);
  const std::string proof = read("out/certificate.json");
  const Said said = plan({"--slowdown", "5", "--points", "0", "--out", path("out")});
  ASSERT_EQ(said.status, 0);
  EXPECT_THAT(said.err, AllOf(HasSubstr("warning:"), HasSubstr("to an earlier plan"),
                              HasSubstr(path("out/earlier-certificate.json"))));
  EXPECT_FALSE(std::filesystem::exists(path("out/certificate.json")));
  EXPECT_EQ(read("out/earlier-certificate.json"), proof);
  EXPECT_EQ(harpe_says({"verify", path("out"), "--profile", path("profile.csv"), "--certificate",
                        path("out/earlier-certificate.json")})
                .status,
            1);

  ASSERT_EQ(plan({"--certificate", "--points", "0", "--out", path("out")}).status, 0);
  const auto again = summary({"--slowdown", "5", "--points", "0", "--out", path("out")});
  EXPECT_THAT(again["warnings"][0].get<std::string>(), HasSubstr("earlier-2-certificate.json"));
  EXPECT_EQ(read("out/earlier-certificate.json"), proof);
}

TEST_F(PlanCommand, AGapIsNotBelievedWithoutACertificate) {
  ASSERT_EQ(plan({"--points", "0", "--out", path("out")}).status, 0);
  const Said said = harpe_says(
      {"verify", path("out/plan.json"), "--profile", path("profile.csv"), "--max-gap", "1"});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("--certificate"));
}

TEST_F(PlanCommand, ForAStragglerAllWait) {
  const json plans = summary({"--straggler", "1.5x"})["plans"];
  for (const char* name : {"all_max", "fastest", "least_energy"}) {
    EXPECT_EQ(plans[name]["iteration_time_s"], plans["chosen"]["iteration_time_s"]) << name;
    EXPECT_GE(plans[name]["iteration_energy_j"], plans["chosen"]["iteration_energy_j"]) << name;
  }
}

TEST_F(PlanCommand, APowerCapIsMetAsFastAsAPlanCan) {
  const json fastest = summary({});
  const double cap = 0.85 * chosen(fastest, "average_power_w");
  const json capped = summary({"--power-cap", std::to_string(cap)});
  EXPECT_LE(chosen(capped, "average_power_w"), cap + 1e-6);
  EXPECT_LT(capped["plans"]["chosen"]["gap_percent"], 1.0);
}

TEST_F(PlanCommandWithLateClocks, APowerCapIsMet) {
  const json fastest = summary({"--switch-latency", "10ms"});
  for (const double share : {0.85, 1.5}) {
    const double cap = share * chosen(fastest, "average_power_w");
    // Eight searches instead of one.
    const json capped =
        summary({"--switch-latency", "10ms", "--quick", "--power-cap", std::to_string(cap)});
    EXPECT_LE(chosen(capped, "average_power_w"), cap + 1e-6);
  }
}

// The cost of late clocks is reported, proven by the certificate, and follows a table.
TEST_F(PlanCommandWithLateClocks, ABoundOfTheirOwnIsProven) {
  write("late.csv", "frequency,latency\n210,0.03\n1200,0.01\n1980,0.005\n");
  const std::vector<std::string> late = {"--slowdown",     "1%",      "--switch-latency",
                                         path("late.csv"), "--quick", "--certificate",
                                         "--points",       "0",       "--out",
                                         path("out")};
  EXPECT_THAT(plan(late).out,
              HasSubstr("No plan that is as fast, with clocks as late, needs less than"));
  const Said verified =
      harpe_says({"verify", path("out/plan.json"), "--profile", path("profile.csv"),
                  "--certificate", path("out/certificate.json")});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(read("out/certificate.json"),
              HasSubstr("\"latency\": [[210, 0.03], [1200, 0.01], [1980, 0.005]]"));
  const json plans = summary(late)["plans"];
  EXPECT_GT(plans["chosen"]["tight_bound_j"], plans["chosen"]["lower_bound_j"]);
  EXPECT_LE(plans["chosen"]["tight_bound_j"], plans["chosen"]["iteration_energy_j"]);
}

/// Returns the energy of a curve at a time, interpolated linearly.
double at_time(const json& curve, double time) {
  std::size_t after = 1;
  while (after + 1 < curve.size() && curve[after][0].get<double>() < time) ++after;
  const double from = curve[after - 1][0], to = curve[after][0];
  const double below = curve[after - 1][1], above = curve[after][1];
  return below + (above - below) * (time - from) / (to - from);
}

TEST_F(PlanCommandWithLateClocks, ThePageDrawsABoundOfTheirOwn) {
  ASSERT_EQ(
      plan({"--switch-latency", "30ms", "--quick", "--points", "5", "--out", path("out")}).status,
      0);
  const std::string page = read("out/report.html");
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  const json data = json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(data["bound"].front()[0], data["freeBound"].front()[0]);
  double most_apart = 0;
  for (const json& point : data["points"]) {
    const double time = point["time"], late = at_time(data["bound"], time);
    const double free = at_time(data["freeBound"], time);
    EXPECT_GE(late, free * (1 - 1e-4));
    EXPECT_LE(late, point["energy"].get<double>() * (1 + 1e-4));
    most_apart = std::max(most_apart, late / free - 1);
  }
  EXPECT_GT(most_apart, 1e-3);
  ASSERT_EQ(plan({"--points", "5", "--out", path("out")}).status, 0);
  EXPECT_THAT(read("out/report.html"), HasSubstr("\"freeBound\":[]"));
}

/// A table of some clocks, as written by Harpe next to `profile.csv`.
class PlanCommandWithATableBeside : public PlanCommandWithLateClocks {
 protected:
  PlanCommandWithATableBeside() {
    const LatencyByClock latency({{{210}, Seconds{0.03}}, {{1410}, Seconds{0.01}}});
    write("profile.latency.csv", plan::latency_table_csv(latency));
    EXPECT_EQ(plan::latency_table_of(path("profile.csv")), path("profile.latency.csv"));
  }
};

TEST_F(PlanCommandWithATableBeside, ItIsUsedAndNamed) {
  const Said found = plan({"--quick", "--points", "2", "--out", path("out")});
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.err, "");
  EXPECT_THAT(found.out, HasSubstr("\nClock changes are late as in profile.latency.csv (10 to 30 "
                                   "ms); --switch-latency 0 assumes free changes\n"));
  EXPECT_THAT(read("out/report.html"),
              AllOf(HasSubstr("<dd>late as in profile.latency.csv (10 to 30 ms)</dd>"),
                    HasSubstr(digest_text(fnv1a(read("profile.latency.csv"))))));
  const std::string made = read("out/plan.json");
  const Said given = plan({"--quick", "--points", "2", "--out", path("out"), "--switch-latency",
                           path("profile.latency.csv")});
  EXPECT_EQ(given.err, "");
  EXPECT_THAT(given.out, AllOf(HasSubstr("late as in profile.latency.csv (10 to 30 ms)\n"),
                               Not(HasSubstr("assumes free changes"))));
  EXPECT_EQ(read("out/plan.json"), made);

  const json said = summary({"--quick"});
  EXPECT_EQ(said["latency_table"], path("profile.latency.csv"));
  EXPECT_EQ(said["switch_latency_s"][1]["latency_s"], 0.01);
  EXPECT_TRUE(said["plans"].contains("free_switching"));
}

TEST_F(PlanCommandWithATableBeside, AnOptionOrAJobFileOverridesIt) {
  for (const char* none : {"0", "0s"}) {
    const Said free = plan({"--switch-latency", none});
    EXPECT_THAT(free.out,
                AllOf(HasSubstr("assumed to be free"), Not(HasSubstr("profile.latency.csv"))));
  }
  const json free = summary({"--switch-latency", "0"});
  EXPECT_EQ(free["switch_latency_s"], 0);
  EXPECT_TRUE(free["latency_table"].is_null());
  EXPECT_FALSE(free["plans"].contains("free_switching"));
  EXPECT_THAT(plan({"--quick", "--switch-latency", "5ms"}).out,
              HasSubstr("\nClock changes are 5 ms late\n"));
  const std::string job = write("job.toml",
                                "profile = \"profile.csv\"\nmicro-batches = 2\n"
                                "blocking-power = 83.64\nswitch-latency = 0\n");
  EXPECT_THAT(harpe_says({"plan", job}).out, HasSubstr("assumed to be free"));
}

TEST_F(PlanCommandWithATableBeside, OtherCommandsUseItToo) {
  const Said compared =
      harpe_says({"compare", "--profile", path("profile.csv"), "--micro-batches", "2",
                  "--blocking-power", "83.64", "--quick", "--schedules", "none"});
  EXPECT_THAT(compared.out, HasSubstr("late as in profile.latency.csv (10 to 30 ms)"))
      << compared.err;
  ASSERT_EQ(plan({"--switch-latency", "0", "--points", "0", "--out", path("out")}).status, 0);
  const auto predicted = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", path("out"), "--profile", path("profile.csv")});
    return harpe_says(more).out;
  };
  const std::string late = predicted({});
  EXPECT_THAT(late, HasSubstr("late as in profile.latency.csv (10 to 30 ms)"));
  EXPECT_NE(predicted({"--switch-latency", "0"}), late);
  EXPECT_THAT(predicted({"--switch-latency", path("profile.latency.csv")}), HasSubstr("(10 to 30"));
  EXPECT_EQ(json::parse(predicted({"--json"}))["latency_table"], path("profile.latency.csv"));
}

TEST_F(PlanCommandWithATableBeside, VerifyExpectsOfAJobFileWhatPlanMakesOfIt) {
  const std::string job = write("job.toml",
                                "profile = \"profile.csv\"\nmicro-batches = 2\nquick = true\n"
                                "blocking-power = 83.64\n");
  ASSERT_EQ(
      harpe_says({"plan", job, "--certificate", "--points", "0", "--out", path("out")}).status, 0);
  const std::vector<std::string> verify = {
      "verify", path("out"), "--certificate", path("out/certificate.json"), "--job", job};
  EXPECT_EQ(harpe_says(verify).err, "");
  std::vector<std::string> free = verify;
  free.insert(free.end(), {"--switch-latency", "0"});
  EXPECT_THAT(harpe_says(free).err,
              HasSubstr("switch-latency: the plan is for 0.01 to 0.03 s, not 0 s"));
  // Without a job file nothing is expected: the certificate names its inputs.
  const Said alone = harpe_says({"verify", path("out"), "--certificate",
                                 path("out/certificate.json"), "--profile", path("profile.csv")});
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("switch latency 0.01 to 0.03 s"));
}

TEST_F(PlanCommandWithATableBeside, ABrokenOneIsNamedWithWhatToDo) {
  const std::string table = write("profile.latency.csv", "frequency,latency\n1410,soon\n");
  const Said said = plan({});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, AllOf(HasSubstr(table + ":2:6: latency: expected seconds"),
                              HasSubstr(table + ": is used because it is beside the profile"),
                              HasSubstr("--switch-latency 0")));
  EXPECT_EQ(plan({"--switch-latency", "0"}).status, 0);
  EXPECT_EQ(harpe_says({"predict", path("none"), "--profile", path("profile.csv")}).status, 2);
}

TEST_F(PlanCommandWithATableBeside, ClocksMayOutlastComputationsAndMillisecondsAreDoubted) {
  write("profile.latency.csv",
        plan::latency_table_csv(LatencyByClock({{{210}, Seconds{0.9}}, {{1410}, Seconds{0.002}}})));
  const Said late =
      plan({"--quick", "--slowdown", "2%", "--certificate", "--points", "0", "--out", path("out")});
  EXPECT_EQ(late.err, "");
  const Said verified = harpe_says({"verify", path("out"), "--profile", path("profile.csv"),
                                    "--certificate", path("out/certificate.json")});
  EXPECT_EQ(verified.status, 0) << verified.err;
  const auto energy = [&](const std::vector<std::string>& more) {
    return chosen(summary(more), "iteration_energy_j");
  };
  // Predicted with the latencies of the table, the plan takes at most its planned time.
  const json predicted = json::parse(
      harpe_says({"predict", path("out"), "--profile", path("profile.csv"), "--json"}).out);
  const json made = json::parse(read("out/plan.json"));
  EXPECT_LE(predicted["iteration_time_s"].get<double>(),
            made["iteration_time_s"].get<double>() * (1 + 1e-9));
  EXPECT_GT(energy({"--slowdown", "2%", "--quick"}),
            energy({"--slowdown", "2%", "--quick", "--switch-latency", "0"}));
  write("profile.latency.csv", "frequency,latency\n210,30\n1410,10\n");
  EXPECT_THAT(plan({"--quick"}).err, HasSubstr("are these milliseconds?"));
}

TEST_F(PlanCommandWithLateClocks, AClientThatIsNotKnownIsRefused) {
  const Said said = plan({"--switch-latency", "10ms", "--client", "perseus"});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("expected any or harpe, found 'perseus'"));
}

// Harpe's client requests clocks ahead: its plan counts only the rest of the latency.
TEST_F(PlanCommandWithLateClocks, PlansForHarpesClientCountWhatItLeaves) {
  const json any = summary({"--slowdown", "1%", "--switch-latency", "10ms", "--quick"});
  std::vector<std::string> options = {"--slowdown", "1%",   "--switch-latency", "10ms", "--quick",
                                      "--client",   "harpe"};
  const json own = summary(options);
  EXPECT_EQ(any["client"], "any");
  EXPECT_EQ(any["counted_latency_s"], 0.01);
  EXPECT_EQ(own["client"], "harpe");
  EXPECT_EQ(own["counted_latency_s"], 0.003);
  EXPECT_LT(own["plans"]["fastest"]["iteration_time_s"],
            any["plans"]["fastest"]["iteration_time_s"]);
  EXPECT_LT(chosen(own, "iteration_energy_j"), chosen(any, "iteration_energy_j"));
  options.insert(options.end(), {"--certificate", "--points", "0", "--out", path("out")});
  EXPECT_THAT(
      plan(options).out,
      HasSubstr("Harpe's client requests clocks ahead: the plan counts the remaining 3 ms"));
  const auto verified = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"verify", path("out/plan.json"), "--profile", path("profile.csv"), "--certificate",
                 path("out/certificate.json"), "--switch-latency", "10ms"});
    return harpe_says(more);
  };
  EXPECT_EQ(verified({"--client", "harpe"}).status, 0) << verified({"--client", "harpe"}).err;
  EXPECT_THAT(verified({}).err, HasSubstr("switch-latency: the plan is for 0.003 s, not 0.01 s"));
}

TEST_F(PlanCommandWithLateClocks, NothingBeatsTheFastest) {
  const json plans = summary({"--switch-latency", "10ms", "--slowdown", "0.5%"})["plans"];
  EXPECT_LE(plans["fastest"]["iteration_time_s"], plans["chosen"]["iteration_time_s"]);
  EXPECT_LE(plans["fastest"]["iteration_time_s"], plans["all_max"]["iteration_time_s"]);
  EXPECT_LE(plans["chosen"]["iteration_energy_j"], plans["fastest"]["iteration_energy_j"]);
}

// Every sixth row, so that the highest clocks of instructions differ.
TEST_F(PlanCommandWithLateClocks, NothingBeatsTheFastestWhereHighestClocksDiffer) {
  std::istringstream lines(read("profile.csv"));
  std::string thinned;
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_row = !line.empty() && line[0] >= '0' && line[0] <= '9';
    if (!is_row || rows++ % 6 == 0) thinned += line + '\n';
  }
  write("profile.csv", thinned);
  micro_batches_ = "3";
  for (const char* slowdown : {"0", "0.5%"}) {
    const json plans = summary({"--switch-latency", "10ms", "--slowdown", slowdown})["plans"];
    for (const char* name : {"all_max", "chosen", "least_energy"}) {
      EXPECT_LE(plans["fastest"]["iteration_time_s"], plans[name]["iteration_time_s"]) << name;
    }
    EXPECT_LE(plans["chosen"]["iteration_energy_j"], plans["fastest"]["iteration_energy_j"]);
  }
}

TEST_F(PlanCommand, ATamperedPlanIsRefusedWithStatus1) {
  ASSERT_EQ(plan({"--points", "0", "--out", path("out")}).status, 0);
  json document = json::parse(read("out/plan.json"));
  document["instructions"][1][0]["energy_j"] =
      document["instructions"][1][0]["energy_j"].get<double>() * 0.9;
  write("tampered.json", document.dump());
  const Said said = harpe_says({"verify", path("tampered.json"), "--profile", path("profile.csv")});
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr("tampered.json"));
}

TEST_F(PlanCommand, APlanOfAnotherOrderIsRefusedWithWhatDiffers) {
  ASSERT_EQ(plan({"--points", "0", "--out", path("out")}).status, 0);
  json document = json::parse(read("out/plan.json"));
  json& list = document["instructions"][3];
  std::swap(list[1]["name"], list[2]["name"]);
  std::swap(list[1]["microbatch"], list[2]["microbatch"]);
  write("swapped.json", document.dump());
  const Said said = harpe_says({"verify", path("swapped.json"), "--profile", path("profile.csv")});
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.err, HasSubstr("stage 3, instruction 1: the plan runs forward of micro-batch 1, "
                                  "where the schedule has backward of micro-batch 0"));
}

TEST_F(PlanCommand, APlanOfAFileIsVerifiedAgainstThatFile) {
  ASSERT_EQ(harpe_says({"schedule", "convert", "1f1b", "--stages", "4", "--micro-batches", "6",
                        "--to", "torch", "--out", path("list.csv")})
                .status,
            0);
  ASSERT_EQ(harpe_says({"plan", "--profile", path("profile.csv"), "--schedule", path("list.csv"),
                        "--blocking-power", "83.64", "--points", "0", "--out", path("out")})
                .status,
            0);
  const auto verify = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"verify", path("out/plan.json"), "--profile", path("profile.csv")});
    return harpe_says(more);
  };
  EXPECT_EQ(verify({"--schedule", path("list.csv")}).status, 0);
  const Said unknown = verify({});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'custom' is not known by name: give its file "
                                     "with --schedule"));
  ASSERT_EQ(harpe_says({"schedule", "convert", "gpipe", "--stages", "4", "--micro-batches", "6",
                        "--to", "torch", "--out", path("other.csv")})
                .status,
            0);
  const Said other = verify({"--schedule", path("other.csv")});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("where the schedule has"));
  EXPECT_EQ(verify({"--schedule", path("missing.csv")}).status, 2);
}

TEST_F(PlanCommand, EveryGoalIsMet) {
  const json fastest = summary({});
  const double min_time = fastest["frontier"]["min_time_s"];
  EXPECT_LE(chosen(fastest, "iteration_time_s"), min_time * (1 + 1e-9));
  EXPECT_GT(chosen(fastest, "saving_percent"), 0);

  const json slower = summary({"--slowdown", "5%"});
  EXPECT_LE(chosen(slower, "iteration_time_s"), 1.05 * min_time * (1 + 1e-9));
  EXPECT_LT(chosen(slower, "iteration_energy_j"), chosen(fastest, "iteration_energy_j"));

  const double deadline = 1.1 * min_time;
  EXPECT_LE(chosen(summary({"--deadline", std::to_string(deadline)}), "iteration_time_s"),
            deadline + 1e-6);

  const json straggler = summary({"--straggler", "1.3x"});
  const double all_max_time = fastest["plans"]["all_max"]["iteration_time_s"];
  EXPECT_NEAR(chosen(straggler, "iteration_time_s"), 1.3 * all_max_time, 1e-6);
  EXPECT_NEAR(straggler["plans"]["all_max"]["iteration_time_s"].get<double>(), 1.3 * all_max_time,
              1e-6);

  const double cap = 0.9 * chosen(fastest, "average_power_w");
  const json capped = summary({"--power-cap", std::to_string(cap)});
  EXPECT_LE(chosen(capped, "average_power_w"), cap + 1e-6);
  EXPECT_GT(chosen(capped, "iteration_time_s"), min_time);

  const json least = summary({"--least-energy"});
  EXPECT_LE(chosen(least, "iteration_energy_j"), chosen(slower, "iteration_energy_j"));
}

TEST_F(PlanCommand, TheTableSaysHowItsPlansAreTimed) {
  const std::string waits = "All of these plans wait for the straggler";
  const std::string no_fastest = "all-max is not the fastest plan";
  const auto table_of = [&](const std::string& time_at_highest,
                            const std::vector<std::string>& more) {
    std::ofstream(path("two.csv")) << "stage,instruction,frequency,time,energy\n"
                                      "0,forward,1410," +
                                          time_at_highest +
                                          ",40\n"
                                          "0,forward,1200,0.11,30\n"
                                          "0,backward,1410,0.2,80\n0,backward,1200,0.22,70\n";
    std::vector<std::string> line = {"plan", "--profile", path("two.csv"), "--micro-batches", "2"};
    line.insert(line.end(), more.begin(), more.end());
    const Said said = harpe_says(line);
    EXPECT_EQ(said.status, 0) << said.err;
    return said.out;
  };
  EXPECT_THAT(table_of("0.1", {}), AllOf(Not(HasSubstr(waits)), Not(HasSubstr(no_fastest))));
  EXPECT_THAT(table_of("0.1", {"--straggler", "1.3x"}), HasSubstr(waits));
  EXPECT_THAT(table_of("0.12", {}), HasSubstr(no_fastest));
}

TEST_F(PlanCommand, AJobFileAsksForTheSameAsOptions) {
  write("job.toml",
        "profile = \"profile.csv\"\nmicrobatches = 6\nblocking-power = 83.64\n"
        "slowdown = \"2%\"\n");
  const Said from_file = harpe_says({"plan", path("job.toml"), "--json"});
  ASSERT_EQ(from_file.status, 0) << from_file.out;
  EXPECT_EQ(json::parse(from_file.out), summary({"--slowdown", "2"}));
  const Said replaced = harpe_says({"plan", path("job.toml"), "--slowdown", "4", "--json"});
  EXPECT_EQ(json::parse(replaced.out), summary({"--slowdown", "4"}));
}

TEST_F(PlanCommand, ComparesWithPublishedPoliciesWhereAsked) {
  EXPECT_FALSE(summary({})["rivals"].contains("perseus"));
  const json said = summary({"--slowdown", "3", "--compare"});
  for (const char* const policy : {"one_clock_per_stage", "envpipe", "perseus"}) {
    SCOPED_TRACE(policy);
    const json& no_slower = said["rivals"][policy]["no_slower"];
    ASSERT_TRUE(no_slower.is_object());
    EXPECT_FALSE(no_slower.contains("frequency_mhz")) << "each instruction has its own";
    EXPECT_LE(no_slower["iteration_time_s"].get<double>(),
              1.001 * chosen(said, "iteration_time_s"));
    EXPECT_GE(no_slower["iteration_energy_j"].get<double>(), chosen(said, "iteration_energy_j"));
  }
  const Said page = plan({"--compare", "--points", "3", "--out", path("compared")});
  EXPECT_THAT(page.out, AllOf(HasSubstr("EnvPipe: saves"), HasSubstr("Perseus: saves")));
  EXPECT_THAT(read("compared/report.html"), HasSubstr("EnvPipe"));
}

TEST_F(PlanCommand, TheBillOfAClusterIsThatOfItsIterations) {
  const std::vector<std::string> asked = {
      "--slowdown",   "3",       "--gpus-per-stage", "8",        "--pipelines", "32",    "--hours",
      "100",          "--price", "0.10 EUR/kWh",     "--carbon", "DE",          "--pue", "1.2",
      "--host-power", "1kW"};
  const json said = summary(asked);
  const json& cluster = said["cluster"];
  EXPECT_EQ(cluster["gpus"], 1024);
  EXPECT_EQ(cluster["nodes"], 128);
  EXPECT_EQ(cluster["currency"], "EUR");
  const double iterations = 100 * 3600 / chosen(said, "iteration_time_s");
  EXPECT_NEAR(cluster["iterations"].get<double>(), iterations, 1e-6);
  const auto site_kwh = [&](const json& way) {
    const double watts = 128 * 1000;
    return 1.2 * iterations *
           (32 * way["iteration_energy_j"].get<double>() +
            watts * way["iteration_time_s"].get<double>()) /
           3.6e6;
  };
  const double used = site_kwh(said["plans"]["chosen"]);
  const double instead = site_kwh(said["plans"]["all_max"]);
  const double one_clock = site_kwh(said["rivals"]["one_clock"]["no_slower"]);
  EXPECT_NEAR(cluster["kwh"].get<double>(), used, 1e-6);
  EXPECT_NEAR(cluster["kw"].get<double>(), used / 100, 1e-8);
  EXPECT_NEAR(cluster["co2_t"].get<double>(), used * 381e-6, 1e-8);
  EXPECT_NEAR(cluster["money"].get<double>(), used * 0.10, 1e-6);
  EXPECT_NEAR(cluster["saved"]["kwh"].get<double>(), instead - used, 1e-6);
  EXPECT_NEAR(cluster["saved"]["money"].get<double>(), (instead - used) * 0.10, 1e-6);
  EXPECT_NEAR(cluster["saved_against_one_clock"]["kwh"].get<double>(), one_clock - used, 1e-6);
  EXPECT_GT(one_clock, used);

  std::vector<std::string> with_files = asked;
  with_files.insert(with_files.end(), {"--points", "3", "--out", path("bill")});
  const Said text = plan(with_files);
  EXPECT_THAT(text.out, AllOf(HasSubstr("In plain words: for 1 024 GPUs (32 pipelines of 32) the"),
                              HasSubstr("Against all-max"), HasSubstr("PUE 1.2")));
  EXPECT_THAT(read("bill/report.html"),
              AllOf(HasSubstr("1 024 GPUs (32 pipelines of 32) in 100 h"), HasSubstr("t of CO2")));
}

TEST_F(PlanCommand, WithoutAQuestionAboutTheClusterThereIsNoBill) {
  EXPECT_FALSE(summary({}).contains("cluster"));
  EXPECT_THAT(plan({}).out, Not(HasSubstr("In plain words")));
}

TEST_F(PlanCommand, AJobFileAsksForTheBillOfAClusterToo) {
  write("grid.csv", "Time,Carbon Intensity\n2024-01-01T00:00Z,100\n2024-01-01T01:00Z,300\n");
  write("job.toml",
        "profile = \"profile.csv\"\nmicrobatches = 6\nblocking-power = 83.64\npipelines = 4\n"
        "price = \"12 ct/kWh\"\ncarbon = \"file:grid.csv\"\n");
  const Said said = harpe_says({"plan", path("job.toml"), "--json"});
  ASSERT_EQ(said.status, 0) << said.out;
  const json cluster = json::parse(said.out)["cluster"];
  EXPECT_EQ(cluster["gpus"], 16);
  EXPECT_EQ(cluster["hours"], 720);
  EXPECT_EQ(cluster["carbon"]["grams_per_kwh"], 200);
  EXPECT_TRUE(cluster["currency"].is_null());
  EXPECT_DOUBLE_EQ(cluster["money"].get<double>(), 0.12 * cluster["kwh"].get<double>());

  write("job.toml", "profile = \"profile.csv\"\nmicrobatches = 6\npue = 0.9\nhours = 0\n");
  const Said refused = harpe_says({"plan", path("job.toml")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("job.toml:3:7: pue: a PUE is"),
                                 HasSubstr("job.toml:4:9: hours: expected more than 0 hours")));
}

TEST_F(PlanCommand, EveryScheduleByNameIsPlanned) {
  ASSERT_EQ(harpe_says({"synth", "--stages", "4", "--split-backward", "--recompute", "--out",
                        path("full.csv")})
                .status,
            0);
  const json list = json::parse(harpe_says({"schedule", "show", "--list", "--json"}).out);
  for (const json& entry : list["schedules"]) {
    const std::string name = entry["name"];
    const std::string out = path("out_" + name);
    const Said said = harpe_says({"plan", "--profile", path("full.csv"), "--schedule", name,
                                  "--micro-batches", "8", "--blocking-power", "83.64", "--points",
                                  "0", "--certificate", "--out", out});
    ASSERT_EQ(said.status, 0) << name << ": " << said.err;
    const Said verified = harpe_says({"verify", out + "/plan.json", "--profile", path("full.csv"),
                                      "--certificate", out + "/certificate.json"});
    EXPECT_EQ(verified.status, 0) << name << ": " << verified.err;
  }
}

TEST_F(PlanCommand, AConvertedScheduleGivesTheSamePlan) {
  for (const char* form : {"torch", "json"}) {
    ASSERT_EQ(harpe_says({"schedule", "convert", "1f1b", "--stages", "4", "--micro-batches", "6",
                          "--to", form, "--out", path(std::string("list.") + form)})
                  .status,
              0);
    const Said said =
        harpe_says({"plan", "--profile", path("profile.csv"), "--schedule",
                    path(std::string("list.") + form), "--blocking-power", "83.64", "--json"});
    ASSERT_EQ(said.status, 0) << said.out;
    EXPECT_EQ(json::parse(said.out)["plans"], summary({})["plans"]);
  }
}

TEST_F(PlanCommand, FixedTimesAndTransfersMakeTheIterationLonger) {
  const double plain = summary({})["frontier"]["min_time_s"];
  const auto longer = [&](std::vector<std::string> options) {
    return summary(std::move(options))["frontier"]["min_time_s"].get<double>() - plain;
  };
  EXPECT_NEAR(longer({"--optimizer", "100ms"}), 0.1, 1e-6);
  EXPECT_NEAR(longer({"--reduce", "100ms", "--optimizer", "50ms"}), 0.15, 1e-6);
  // The first stage loads ahead of 6 forwards, of which at least the first delays everything.
  EXPECT_GT(longer({"--load", "0.01,0,0,0"}), 0.009);
  // A micro-batch passes each of 3 boundaries once in each direction.
  EXPECT_GT(longer({"--transfer-forward", "3ms", "--transfer-backward", "3ms"}), 0.017);
  EXPECT_GT(longer({"--transfer-forward", "3ms", "--transfer-backward", "3ms", "--transfer-mode",
                    "rendezvous"}),
            longer({"--transfer-forward", "3ms", "--transfer-backward", "3ms"}));
}

TEST_F(PlanCommand, PlansWithFixedTimesAndTransfersAreAccepted) {
  const Said said =
      plan({"--load", "5ms,0,0,5ms", "--optimizer", "20ms", "--reduce", "30ms",
            "--transfer-forward", "1ms,2ms,3ms", "--transfer-backward", "2ms", "--transfer-mode",
            "rendezvous", "--points", "0", "--certificate", "--out", path("out")});
  ASSERT_EQ(said.status, 0) << said.err;
  const Said verified =
      harpe_says({"verify", path("out/plan.json"), "--profile", path("profile.csv"),
                  "--certificate", path("out/certificate.json")});
  EXPECT_EQ(verified.status, 0) << verified.err;
}

TEST_F(PlanCommandWithLateClocks, LateSwitchesCostEnergyAndTheSummarySaysHowMuch) {
  const json free = summary({"--slowdown", "3"});
  const json late = summary({"--slowdown", "3", "--switch-latency", "30ms"});
  EXPECT_LE(chosen(late, "clock_changes"), chosen(free, "clock_changes"));
  EXPECT_GE(chosen(late, "iteration_energy_j"), chosen(free, "iteration_energy_j") * (1 - 1e-3));
  EXPECT_GE(late["plans"]["free_switching"]["clock_changes"].get<double>(),
            chosen(late, "clock_changes"));
  EXPECT_THAT(plan({"--switch-latency", "10ms"}).out, HasSubstr(" more energy than its "));
}

std::string two_decimals(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value;
  return text.str();
}

// The same clocks in a plan for late clocks, whose changes `harpe verify` checks without the
// solver.
TEST_F(PlanCommand, SaysWhatItSavesIfTheChangesThatItTakesAsFreeComeLate) {
  const std::vector<std::string> wanted = {"--slowdown", "3",     "--points",
                                           "0",          "--out", path("out")};
  const Said said = plan(wanted);
  const json document = summary(wanted);
  const json& late = document["plans"]["late_replay"];
  const double saving = late["saving_percent"].get<double>();
  EXPECT_LT(saving, chosen(document, "saving_percent"));
  const std::string words =
      "assumed to be free; with 10 ms each PLAN saves " + two_decimals(saving) + " %, not " +
      two_decimals(chosen(document, "saving_percent")) + " %, and takes " +
      two_decimals(
          100 *
          (late["iteration_time_s"].get<double>() / chosen(document, "iteration_time_s") - 1)) +
      " % longer";
  const auto of = [&](const std::string& name) {
    std::string text = words;
    return text.replace(text.find("PLAN"), 4, name);
  };
  EXPECT_THAT(said.out, HasSubstr(" clock changes " + of("this plan") + "; --switch-latency"));
  EXPECT_THAT(read("out/report.html"), HasSubstr(of("the chosen plan")));

  const Profile profile = plan::must(read_profile(path("profile.csv")));
  const Frontier frontier = plan::must(characterize(one_f_one_b({.stages = 4, .micro_batches = 6}),
                                                    profile, {.blocking_power = Watts{83.64}}));
  std::vector<std::vector<Megahertz>> clocks;
  for (const auto& list : plan::must(read_plan(path("out/plan.json"))).instructions) {
    clocks.emplace_back();
    for (const PlannedInstruction& one : list) clocks.back().push_back(one.clock);
  }
  const PlanOptions options{.switch_latency = Seconds{0.01}};
  const Plan replayed = plan::must(frontier.plan_of_clocks(clocks, Seconds{0}, options));
  EXPECT_NEAR(late["iteration_energy_j"].get<double>(), replayed.iteration_energy.value, 1e-6);
  EXPECT_NEAR(late["iteration_time_s"].get<double>(), replayed.iteration_time.value, 1e-9);
  write("late.json", plan_json(replayed));
  write("late_certificate.json",
        certificate_json(plan::must(frontier.certificate(replayed.iteration_time, options))));
  const Said verified = harpe_says({"verify", path("late.json"), "--profile", path("profile.csv"),
                                    "--certificate", path("late_certificate.json")});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("switch latency 0.01 s"));

  // If every change is late by exactly that, some instructions save time that the worst-case replay
  // does not count.
  const json predicted =
      json::parse(harpe_says({"predict", path("out"), "--profile", path("profile.csv"),
                              "--switch-latency", "10ms", "--json"})
                      .out);
  EXPECT_GT(predicted["iteration_energy_j"].get<double>(), chosen(document, "iteration_energy_j"));
  EXPECT_LE(predicted["iteration_energy_j"].get<double>(),
            late["iteration_energy_j"].get<double>() * (1 + 1e-9));
  EXPECT_LE(predicted["iteration_time_s"].get<double>(),
            late["iteration_time_s"].get<double>() * (1 + 1e-9));
}

TEST_F(PlanCommand, AProfileLooksRightWhereNothingIsRemarked) {
  const auto checked = [&] { return harpe_says({"profile", "check", path("profile.csv")}).out; };
  EXPECT_THAT(checked(), AllOf(HasSubstr(" instructions\nNothing looks wrong.\n"),
                               HasSubstr("Energies are compared as they are")));
  EXPECT_THAT(harpe_says({"profile", "check", path("profile.csv"), "--blocking-power", "80"}).out,
              HasSubstr("Energies are compared after subtracting the energy of a GPU that waits"));
  std::string copied = read("profile.csv");
  std::istringstream lines(copied);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0,")) copied += "4" + line.substr(1) + '\n';
  }
  write("profile.csv", copied);
  EXPECT_THAT(checked(),
              AllOf(HasSubstr("copies, not measurements"), Not(HasSubstr("Nothing looks wrong"))));
}

TEST_F(PlanCommand, EnergiesOfAnyMagnitudeGiveTheSameClocks) {
  const std::string csv = read("profile.csv");
  const auto scaled = [&](double factor) {
    std::istringstream lines(csv);
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      const std::size_t comma = line.rfind(',');
      const bool is_row = !line.empty() && line[0] >= '0' && line[0] <= '9';
      if (!is_row) {
        text += line + '\n';
        continue;
      }
      std::ostringstream number;
      number.precision(17);
      number << std::stod(line.substr(comma + 1)) * factor;
      text += line.substr(0, comma + 1) + number.str() + '\n';
    }
    return text;
  };
  // Powers of two, so that the scaled profile is exactly the same in another unit. Larger factors
  // would give powers that no GPU has, which are rejected.
  for (const double factor : {0x1p-4, 0x1p4}) {
    std::ostringstream power;
    power.precision(17);
    power << 83.64 * factor;
    const std::string profile = write("scaled.csv", scaled(factor));
    const std::string out = path("scaled");
    ASSERT_EQ(harpe_says({"plan", "--profile", profile, "--micro-batches", "6", "--blocking-power",
                          power.str(), "--slowdown", "3", "--points", "0", "--out", out})
                  .status,
              0);
    ASSERT_EQ(plan({"--slowdown", "3", "--points", "0", "--out", path("unscaled")}).status, 0);
    const json one = json::parse(read("unscaled/plan.json"));
    const json other = json::parse(read("scaled/plan.json"));
    for (std::size_t stage = 0; stage < one["instructions"].size(); ++stage) {
      for (std::size_t i = 0; i < one["instructions"][stage].size(); ++i) {
        EXPECT_EQ(one["instructions"][stage][i]["frequency_mhz"],
                  other["instructions"][stage][i]["frequency_mhz"]);
      }
    }
    EXPECT_NEAR(other["iteration_energy_j"].get<double>() / factor,
                one["iteration_energy_j"].get<double>(), 1e-6);
  }
}

TEST_F(PlanCommand, OneTwoOrThreeClocksAreEnough) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage) {
    for (int clock = 0; clock <= stage; ++clock) {
      const std::string mhz = std::to_string(1400 - 200 * clock);
      const std::string time = "0.00" + std::to_string(5 + clock);  // instructions of 5 ms
      const std::string energy = std::to_string(2.0 - 0.3 * clock);
      csv += std::to_string(stage) + ",forward," + mhz + "," + time + "," + energy + "\n";
      csv += std::to_string(stage) + ",backward," + mhz + "," + time + "," + energy + "\n";
    }
  }
  write("profile.csv", csv);
  const json found = summary({});
  EXPECT_GT(chosen(found, "iteration_energy_j"), 0);
  EXPECT_GE(chosen(found, "gap_percent"), -1e-9);
}

TEST_F(PlanCommand, TimesThatHardlyDependOnTheClockArePlanned) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int clock = 0; clock < 20; ++clock) {
    std::ostringstream row;
    row.precision(15);
    row << 1400 - 15 * clock << "," << 0.05 + clock * 1e-9 << "," << 20 - 0.1 * clock << "\n";
    csv += "0,forward," + row.str() + "0,backward," + row.str();
  }
  write("profile.csv", csv);
  // A single stage has no slack: without slowdown only the fastest clock is possible.
  EXPECT_GT(chosen(summary({"--slowdown", "0.01%"}), "saving_percent"), 5);
}

TEST_F(PlanCommand, PredictReplaysAPlan) {
  ASSERT_EQ(plan({"--points", "0", "--out", path("out")}).status, 0);
  const json plain = json::parse(
      harpe_says({"predict", path("out/plan.json"), "--profile", path("profile.csv"), "--json"})
          .out);
  EXPECT_NEAR(plain["iteration_time_s"].get<double>(), plain["planned_time_s"].get<double>(), 1e-9);
  EXPECT_NEAR(plain["iteration_energy_j"].get<double>(), plain["planned_energy_j"].get<double>(),
              1e-6);
  const json more =
      json::parse(harpe_says({"predict", path("out/plan.json"), "--profile", path("profile.csv"),
                              "--fixed-extra", "100ms", "--json"})
                      .out);
  EXPECT_NEAR(more["iteration_time_s"].get<double>(), plain["iteration_time_s"].get<double>() + 0.1,
              1e-9);
  const Said loaded =
      harpe_says({"predict", path("out/plan.json"), "--profile", path("profile.csv"), "--load",
                  "10ms", "--transfer-forward", "2ms", "--transfer-mode", "rendezvous", "--json"});
  ASSERT_EQ(loaded.status, 0) << loaded.err;
  EXPECT_GT(json::parse(loaded.out)["iteration_time_s"].get<double>(),
            plain["iteration_time_s"].get<double>() + 0.01);
  const Said wrong = harpe_says({"predict", path("out/plan.json"), "--profile", path("profile.csv"),
                                 "--load", "1ms,2ms,3ms"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--load has 3 values"));
}

TEST_F(PlanCommand, WithoutBlockingPowerANoteSaysWhatIsAssumed) {
  const Said said = harpe_says({"plan", "--profile", path("profile.csv"), "--micro-batches", "2"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("no --blocking-power given"));
  EXPECT_THAT(plan({}).out, Not(HasSubstr("no --blocking-power given")));
}

void add_keys(const json& value, std::set<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      keys.insert(key);
      add_keys(inner, keys);
    }
  }
}

TEST_F(PlanCommand, DocumentationNamesTheKeysOfTheSummary) {
  std::ifstream file(std::filesystem::path(source_tree()) / "docs" / "formats.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = page.find("## Summary of a plan (JSON)");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  std::set<std::string> keys;
  add_keys(summary({"--stages", "3", "--search-windows", "2"}), keys);
  add_keys(summary({"--switch-latency", "10ms", "--quick", "--points", "0", "--out", path("out")}),
           keys);
  const Said verified =
      harpe_says({"verify", path("out"), "--profile", path("profile.csv"), "--json"});
  add_keys(json::parse(verified.out)["given"], keys);
  EXPECT_GE(keys.size(), 45U);
  for (const std::string& key : keys) {
    EXPECT_TRUE(section.find('`' + key + '`') != std::string::npos ||
                section.find('.' + key + '`') != std::string::npos)
        << key;
  }
}

TEST_F(PlanCommand, TheIndependentCheckerAgreesOnMeasuredProfiles) {
  const std::filesystem::path shared = shared_directory();
  const std::filesystem::path tool = shared / "tools" / "verify_plan.py";
  const std::filesystem::path profile = shared / "data/sosp24/emulation/gpt3-175b_a100-sxm.csv";
  if (!std::filesystem::exists(tool) || !std::filesystem::exists(profile)) {
    GTEST_SKIP() << "needs the measured data sets (HARPE_SHARED)";
  }
  for (const char* slowdown : {"0", "2", "10"}) {
    const Said said = harpe_says({"plan", "--profile", profile.string(), "--micro-batches", "12",
                                  "--blocking-power", "83.64", "--slowdown", slowdown, "--points",
                                  "0", "--out", path("out")});
    ASSERT_EQ(said.status, 0) << said.err;
    const std::string command = "/usr/bin/python3 '" + tool.string() + "' '" +
                                path("out/plan.json") + "' '" + profile.string() +
                                "' --max-gap 0.18 > '" + path("verdict") + "' 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0)  // NOLINT(concurrency-mt-unsafe)
        << read("verdict");
  }
}

}  // namespace
}  // namespace harpe
