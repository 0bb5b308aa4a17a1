// `harpe lab emulate` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/emulate_options.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/lab/emulation/throttled_pipelines.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using TestJson = nlohmann::json;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

class Emulate : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = (directory_.path() / name).string();
    EXPECT_TRUE(write_file(path, text).ok());
    return path;
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  /// Runs the command on a synthetic profile of four stages and eight micro-batches.
  Said emulate(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {
        "emulate",          profile_, "--micro-batches", "8", "--gpu", "a100-sxm", "--quick",
        "--gpus-per-stage", "8",      "--pipelines",     "16"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return harpe_with(add_emulate_command, arguments);
  }
  TestJson document(std::vector<std::string> options) {
    options.emplace_back("--json");
    const Said said = emulate(options);
    EXPECT_EQ(said.status, 0) << said.err << said.out;
    return TestJson::parse(said.out);
  }

  TestDirectory directory_;
  std::string profile_ = file("profile.csv", profile_csv(synthesize({.stages = 4}).value()));
};

TEST_F(Emulate, AnswersInKilowattHoursCarbonAndMoneyForAMonth) {
  const TestJson result =
      document({"--carbon", "DE", "--price", "0.20 EUR/kWh", "--straggler", "20%,every=3d,for=1d"});
  EXPECT_EQ(result["gpus"], 512);
  EXPECT_GT(result["saved"]["all_max"]["percent"].get<double>(), 5);
  const double slow = result["straggling"].get<double>() / result["executed"].get<double>();
  // On a third of the days, iterations take 1.2 times as long.
  EXPECT_NEAR(slow, 1 / (1 + 2 * 1.2), 0.01);
  EXPECT_GT(result["deviation_percent"], 0);
  EXPECT_LT(result["deviation_percent"], 0.5);
  const TestJson& cluster = result["cluster"];
  EXPECT_EQ(cluster["hours"], 720);
  EXPECT_EQ(cluster["carbon"]["zone"], "DE");
  EXPECT_NEAR(cluster["saved"]["money"].get<double>(), 0.2 * cluster["saved"]["kwh"].get<double>(),
              1e-6);
  EXPECT_GT(cluster["saved"]["co2_t"].get<double>(), 0);
  EXPECT_NEAR(cluster["saved"]["percent"].get<double>(),
              result["saved"]["all_max"]["percent"].get<double>(), 1e-6);
}

TEST_F(Emulate, AnswersPerToken) {
  const TestJson result = document({"--iterations", "10", "--tokens", "2e6"});
  const TestJson& harpe = result["policies"][0];
  EXPECT_NEAR(harpe["kwh_per_million_tokens"].get<double>(),
              harpe["energy_kwh"].get<double>() / 10 / 2, 1e-9);
  EXPECT_THAT(emulate({"--iterations", "10", "--tokens", "2e6"}).out,
              HasSubstr("A billion tokens need"));
}

TEST_F(Emulate, RefusesWhatMeansNothingAndWarnsOfForgottenPercentSigns) {
  EXPECT_THAT(emulate({"--checkpoint-time", "5s"}).err, HasSubstr("needs --checkpoint-every"));
  EXPECT_THAT(emulate({"--restart-time", "5s"}).err, HasSubstr("needs --failure-every"));
  EXPECT_THAT(emulate({"--power-cap", "0"}).err, HasSubstr("more than 0 W"));
  EXPECT_THAT(emulate({"--power-cap", "300kw"}).err, HasSubstr("expected watts (300kW) or a CSV"));
  EXPECT_THAT(emulate({"--iterations", "5", "--noise", "0.01"}).err,
              HasSubstr("--noise is in percent: 0.01 %"));
  const std::string job = file("job.toml", "iterations = 5\n");
  EXPECT_THAT(harpe_with(add_emulate_command, {"emulate", job}).err, HasSubstr("--config " + job));
  const std::string out = file("out.toml", "profile = \"profile.csv\"\nout = \"saved\"\n");
  EXPECT_THAT(harpe_with(add_emulate_command, {"emulate", out, "--micro-batches", "8"}).err,
              HasSubstr("remove it from the job"));
  EXPECT_THAT(emulate({"--out", ""}).err, HasSubstr("--out: expected a value"));
  EXPECT_THAT(emulate({"--straggler", "20%,every=3d,every=2d,for=1d"}).err,
              HasSubstr("every is given twice"));
  EXPECT_THAT(emulate({"--power-limit", "100W", "--iterations", "5"}).out,
              HasSubstr("the limit is exceeded"));
}

TEST_F(Emulate, ComparesWithTheOneClockThatAUserWouldSet) {
  const std::vector<std::string> options = {"--iterations", "5", "--straggler",
                                            "20%,every=3d,for=1d", "--power-cap"};
  const auto under = [&](const std::string& cap) {
    std::vector<std::string> all = options;
    all.push_back(cap);
    return emulate(all).out;
  };
  EXPECT_THAT(under("150kW"),
              AllOf(HasSubstr("A pipeline is 20 % slower for"),
                    HasSubstr("all-max draws more than the power cap allows"),
                    HasSubstr("the fastest one clock for all GPUs under the power cap")));
  EXPECT_THAT(under("500kW"), AllOf(HasSubstr("that is no slower without stragglers"),
                                    Not(HasSubstr("than the power cap allows"))));
  const std::string changing = file("caps.csv", "time_s,watts\n0,150000\n1,140000\n");
  EXPECT_THAT(under(changing), Not(HasSubstr("one clock")));
}

TEST_F(Emulate, ThePageSaysTheShareOfTheSiteWhoseAmountsItShows) {
  const Said said = emulate({"--iterations", "20", "--pue", "1.2", "--host-power", "1.5kW",
                             "--least-energy", "--out", path("site")});
  ASSERT_EQ(said.status, 0) << said.err;
  const std::string page = read_file(path("site/emulation.html")).value();
  EXPECT_THAT(page,
              AllOf(HasSubstr("less than the site uses with all GPUs at their highest clocks"),
                    HasSubstr("of the GPUs alone,"), HasSubstr("It takes")));
  const TestJson json = TestJson::parse(read_file(path("site/emulation.json")).value());
  const double percent = json["cluster"]["saved"]["percent"].get<double>();
  EXPECT_THAT(page, HasSubstr(percent_text(percent, 2).substr(0, 5)));
}

TEST_F(Emulate, KeepsThePowerOfAnEarlierRunAside) {
  const std::vector<std::string> options = {"--iterations", "3",           "--power-time",  "2",
                                            "--out",        path("again"), "--power-format"};
  const auto with = [&](const std::string& format) {
    std::vector<std::string> all = options;
    all.push_back(format);
    return emulate(all);
  };
  EXPECT_EQ(with("table").err, "");
  EXPECT_THAT(with("parquet").err, HasSubstr("power.csv is from an earlier run"));
  EXPECT_FALSE(read_file(path("again/power.csv")).ok());
  EXPECT_TRUE(read_file(path("again/earlier-power.csv")).ok());
}

TEST_F(Emulate, ARealJobComesToTheSameSavingAndKnowsIt) {
  const std::vector<std::string> options = {"--iterations", "400", "--through-job",
                                            "--power-spread", "0"};
  const TestJson result = document(options);
  const TestJson& job = result["through_job"];
  EXPECT_EQ(job["iterations"], 400);
  const double saved = job["saved_j"].get<double>();
  const double percent = 100 * saved / job["all_max_energy_j"].get<double>();
  // The job runs some percent of its iterations at all-max.
  EXPECT_NEAR(percent, result["saved"]["all_max"]["percent"].get<double>(), 0.1 * percent);
  EXPECT_NEAR(job["claimed_j"].get<double>(), saved,
              job["claimed_error_j"].get<double>() + 0.02 * saved);
}

TEST_F(Emulate, ARealJobFindsAStragglerByItsReports) {
  const Said said = emulate(
      {"--iterations", "300", "--through-job", "--straggler", "30%,pipeline=3", "--noise", "0.3%"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("pipeline 3 takes 1.3 times as long"));
  EXPECT_EQ(document({"--iterations", "5"})["through_job"], nullptr);
}

TEST_F(Emulate, GivesTheSameBytesOnAnyNumberOfProcessors) {
  const std::vector<std::string> options = {"--noise", "2%", "--iterations", "50", "--json"};
  std::vector<std::string> two = options, other_seed = options;
  two.insert(two.end(), {"--jobs", "2"});
  other_seed.insert(other_seed.end(), {"--seed", "2"});
  const Said one = emulate(options);
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out, emulate(two).out);
  EXPECT_NE(one.out, emulate(other_seed).out);
}

TEST_F(Emulate, WritesAPageAndThePowerOfEachIteration) {
  const Said said = emulate({"--iterations", "20", "--out", path("saved")});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("In plain words"), HasSubstr("Accuracy: "),
                              HasSubstr("emulation.html")));
  const std::string page = read_file(path("saved/emulation.html")).value();
  EXPECT_THAT(page, AllOf(HasSubstr("Saving in a month"), HasSubstr("512 GPUs"),
                          HasSubstr("a100-sxm"), Not(HasSubstr("{{"))));
  EXPECT_THAT(page, AllOf(HasSubstr(">Basis<"), HasSubstr(">Accuracy<"), HasSubstr("<svg")));
  const std::string iterations = read_file(path("saved/iterations.csv")).value();
  EXPECT_EQ(std::count(iterations.begin(), iterations.end(), '\n'), 21);
  const std::string power = read_file(path("saved/power.csv")).value();
  EXPECT_THAT(power, testing::StartsWith("time_s,job_w,job_all_max_w,node_0_w,"));
  EXPECT_GT(std::count(power.begin(), power.end(), '\n'), 1000);
  EXPECT_TRUE(TestJson::accept(read_file(path("saved/emulation.json")).value()));
}

TEST_F(Emulate, WritesPowerAsACatalogueTakesIt) {
  const auto options = [&](const std::string& format, const std::string& pipelines) {
    return std::vector<std::string>{
        "--iterations",   "20",   "--power-time",      "2",      "--out", path(format),
        "--power-format", format, "--power-pipelines", pipelines};
  };
  ASSERT_EQ(emulate(options("table", "2")).status, 0);
  EXPECT_FALSE(std::filesystem::exists(path("table/metadata.json")));
  const Said said = emulate(options("catalogue", "2"));
  ASSERT_EQ(said.status, 0) << said.err;
  const auto lines = [&](const std::string& name) {
    return split(read_file(path(name)).value(), '\n');
  };
  const std::vector<std::string> table = lines("table/power.csv");
  const std::vector<std::string> rows = lines("catalogue/power.csv");
  EXPECT_EQ(rows.front(), "run_id,timestamp,time_relative_s,gpu_id,power_w,sm_clock_mhz");
  constexpr std::size_t kGpus = 64, kSteps = 200, kNodes = 8;
  ASSERT_EQ(rows.size(), 1 + kGpus * kSteps);
  EXPECT_THAT(rows[1], testing::StartsWith("emulated-profile-seed-1,,0,0,"));
  EXPECT_THAT(rows.back(), testing::StartsWith("emulated-profile-seed-1,,1.99,63,"));
  // The GPUs of the first node are the first eight GPUs of every step.
  for (const std::size_t step : {std::size_t{0}, kSteps / 2, kSteps - 1}) {
    double sum = 0;
    for (std::size_t gpu = 0; gpu < kGpus / kNodes; ++gpu)
      sum += std::stod(split(rows[1 + step * kGpus + gpu], ',')[4]);
    EXPECT_NEAR(sum, std::stod(split(table[1 + step], ',')[3]), 0.5) << step;
  }
  const TestJson metadata = TestJson::parse(read_file(path("catalogue/metadata.json")).value());
  EXPECT_EQ(metadata["emulated"], true);
  EXPECT_EQ(metadata["run_id"], "emulated-profile-seed-1");
  EXPECT_EQ(metadata["gpu_type"], "a100-sxm");
  EXPECT_EQ(metadata["gpu_count"], kGpus);
  EXPECT_EQ(metadata["num_samples"], kGpus * kSteps);
  EXPECT_EQ(metadata["parallelism"], "DP=2, TP=8, PP=4");
  EXPECT_THAT(metadata["command"].get<std::string>(), HasSubstr("--power-format catalogue"));
  EXPECT_THAT(emulate(options("catalogue", "0")).err, HasSubstr("--power-pipelines 1"));
  std::vector<std::string> long_options = options("catalogue", "16");
  long_options[3] = "3600";
  EXPECT_THAT(emulate(long_options).err, HasSubstr("shorter --power-time"));
  EXPECT_EQ(emulate(options("pickle", "1")).status, 2);
}

TEST_F(Emulate, WritesTheMeanGpuAsOpenG2gTakesIt) {
  const auto rows = [&](const std::string& format) {
    const Said said = emulate({"--iterations", "20", "--power-time", "2", "--out", path(format),
                               "--power-format", format});
    EXPECT_EQ(said.status, 0) << said.err;
    return split(read_file(path(format + "/power.csv")).value(), '\n');
  };
  const std::vector<std::string> one = rows("openg2g"), job = rows("table");
  EXPECT_EQ(one.front(), "t_s,power_W");
  ASSERT_EQ(one.size(), job.size());
  for (std::size_t i = 1; i < one.size(); i += 20) {
    EXPECT_EQ(split(one[i], ',')[0], split(job[i], ',')[0]);
    EXPECT_NEAR(std::stod(split(one[i], ',')[1]) * 512, std::stod(split(job[i], ',')[1]), 4);
  }
}

TEST_F(Emulate, TakesAllOptionsFromAFile) {
  const std::string config =
      file("cluster.toml",
           "noise = \"1%\"\nstraggler = [\"20%,every=3d,for=1d\", \"1.1x,pipeline=2\"]\n"
           "iterations = 20\nseed = 7\nslowdown = 5\n");
  const Said by_file = emulate({"--config", config, "--json"});
  ASSERT_EQ(by_file.status, 0) << by_file.err;
  const Said by_options = emulate({"--noise", "1%", "--straggler", "20%,every=3d,for=1d",
                                   "--straggler", "1.1x,pipeline=2", "--iterations", "20", "--seed",
                                   "7", "--slowdown", "5", "--json"});
  EXPECT_EQ(by_file.out, by_options.out);
  const std::string wrong = file("wrong.toml", "iterations = 20\nnose = 1\n");
  EXPECT_THAT(emulate({"--config", wrong}).err,
              AllOf(HasSubstr("wrong.toml:2"), HasSubstr("'noise'")));
}

TEST_F(Emulate, FollowsTracesOfStragglersAndCaps) {
  const std::string slow =
      file("slow.csv", "pipeline,begin_iteration,end_iteration,slowdown\n3,5,15,1.3\n7,0,10,1.1\n");
  const TestJson straggling =
      document({"--iterations", "20", "--straggler-trace", slow, "--reaction", "0"});
  EXPECT_EQ(straggling["straggling"], 15);
  EXPECT_EQ(straggling["plan_changes"], 3);
  const double usual = straggling["policies"][0]["power_w"].get<double>();
  const std::string caps =
      file("caps.csv", "time_s,watts\n0," + std::to_string(0.8 * usual) + "\n");
  const TestJson capped =
      document({"--iterations", "20", "--power-cap", caps, "--power-spread", "0"});
  EXPECT_LE(capped["policies"][0]["power_w"].get<double>(), 0.8 * usual * (1 + 1e-6));
  EXPECT_EQ(capped["above_cap"], 0);
}

TEST_F(Emulate, ThrottlesHotPipelinesAndLimitsPower) {
  const auto saved = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--iterations", "20", "--power-spread", "0"});
    return document(options)["saved"]["all_max"]["percent"].get<double>();
  };
  const double usual = saved({});
  EXPECT_GT(saved({"--throttle", "1200MHz,pipeline=3"}), usual) << "the others wait for it";
  EXPECT_LT(saved({"--power-limit", "350W"}), usual) << "high clocks are gone for all";
  EXPECT_EQ(saved({"--throttle", "1410MHz", "--power-limit", "100kW"}), usual);
  // Plans know the limit: the saving equals that with a profile that was measured under the limit.
  const std::string measured = profile_;
  const double limited = saved({"--power-limit", "350W"});
  profile_ =
      file("limited.csv", profile_csv(lab::at_power_limit(read_profile(measured).value(), 350_W)));
  EXPECT_NEAR(saved({}), limited, 1e-9);
  profile_ = measured;
  EXPECT_THAT(emulate({"--iterations", "20", "--power-limit", "350W"}).out,
              HasSubstr("the power limit of 350 W slows all-max by"));
  EXPECT_THAT(emulate({"--throttle", "300MHz"}).err, HasSubstr("855 MHz"));
  EXPECT_THAT(emulate({"--throttle", "1200MHz,pipeline=16"}).err,
              HasSubstr("pipeline 16 does not exist"));
  EXPECT_THAT(emulate({"--power-limit", "50"}).err, HasSubstr("while it waits"));
  EXPECT_EQ(emulate({"--throttle", "1.2x"}).status, 2);
}

TEST_F(Emulate, RefusesWhatIsWrongWithItsLineAndWritesNothing) {
  const std::string gap =
      file("gap.csv", "pipeline,begin_iteration,end_iteration,slowdown\n3,5,15,1.3\n3,16,20,1\n");
  const Said gaps = emulate({"--straggler-trace", gap, "--out", path("none")});
  EXPECT_EQ(gaps.status, 2);
  EXPECT_THAT(gaps.err, AllOf(HasSubstr("gap.csv:3"), HasSubstr("a gap")));
  EXPECT_FALSE(std::filesystem::exists(path("none")));
  const std::string far =
      file("far.csv", "pipeline,begin_iteration,end_iteration,slowdown\n16,5,15,1.3\n");
  EXPECT_THAT(emulate({"--straggler-trace", far}).err, HasSubstr("far.csv:2"));
  EXPECT_EQ(emulate({"--seed", "1", "--seed", "2"}).status, 2);
  EXPECT_EQ(emulate({"--noise", "nan"}).status, 2);
  EXPECT_EQ(emulate({"--noise", "50%"}).status, 2);
  EXPECT_EQ(emulate({"--power-cap", path("missing.csv")}).status, 2);
  EXPECT_THAT(emulate({"--gpu", "a101"}).err, HasSubstr("given"));
  const std::string job = file("job.toml", "straggler = \"1.2x\"\n");
  EXPECT_THAT(harpe_with(add_emulate_command,
                         {"emulate", job, "--profile", profile_, "--micro-batches", "8"})
                  .err,
              HasSubstr("--straggler 20%"));
}

TEST(StragglerOption, SaysHowSlowWhenAndWhich) {
  EXPECT_EQ(*parse_straggler("20%"), (lab::RecurringStraggler{.slowdown = 1.2}));
  EXPECT_EQ(*parse_straggler("1.5x, pipeline=3"),
            (lab::RecurringStraggler{.slowdown = 1.5, .pipeline = 3}));
  EXPECT_EQ(*parse_straggler("20%,every=3d,for=1d,random"),
            (lab::RecurringStraggler{.slowdown = 1.2,
                                     .between = Seconds{2 * 86400.0},
                                     .lasts = Seconds{86400},
                                     .is_random = true}));
  for (const char* wrong : {"", "0%", "0.9x", "20", "nan%", "20%,every=3d", "20%,for=1d",
                            "20%,every=1d,for=1d", "20%,random", "20%,pipeline=-1", "20%,often"})
    EXPECT_FALSE(parse_straggler(wrong).ok()) << wrong;
}

TEST(ThrottleOption, SaysHowHotWhenAndWhich) {
  EXPECT_EQ(*parse_throttle("1260MHz"),
            (lab::RecurringStraggler{.slowdown = 1, .held_to = Megahertz{1260}}));
  EXPECT_EQ(*parse_throttle("1260 MHz, every=3d, for=1d, random, pipeline=3"),
            (lab::RecurringStraggler{.slowdown = 1,
                                     .pipeline = 3,
                                     .between = Seconds{2 * 86400.0},
                                     .lasts = Seconds{86400},
                                     .is_random = true,
                                     .held_to = Megahertz{1260}}));
  for (const char* wrong : {"", "0MHz", "-1MHz", "1260.5MHz", "20%", "1.2x", "MHz", "1e9MHz",
                            "1260MHz,every=3d", "1260MHz,often"})
    EXPECT_FALSE(parse_throttle(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace harpe::command
