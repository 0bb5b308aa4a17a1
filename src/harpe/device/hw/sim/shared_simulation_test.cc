// Processes that share one simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/device/hw/sim/gpu_spec.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/sim/state_memory.h"

namespace harpe::device {
namespace {

using testing::HasSubstr;

class SharedSimulation : public testing::Test {
 protected:
  void SetUp() override { configure(""); }

  void configure(const std::string& more) {
    ASSERT_TRUE(write_file(config(), more + "state_file = \"" + state().string() +
                                         "\"\n[[gpu]]\nmodel = \"a100-sxm\"\ncount = 2\n"
                                         "call_ms = 0\nswitch_ms = 0\n")
                    .ok());
  }
  std::filesystem::path config() const { return folder_ / "sim.toml"; }
  std::filesystem::path state() const { return folder_ / "state"; }
  std::shared_ptr<Simulation> opened() const {
    auto simulation = Simulation::open(config());
    EXPECT_TRUE(simulation.ok()) << simulation.error().text();
    return *simulation;
  }

  /// Runs `body` in a process of its own.
  template <class Body>
  static pid_t in_process(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    return child;
  }

 private:
  const TestDirectory folder_;
};

TEST_F(SharedSimulation, ShowsEveryProcessTheSameGpus) {
  const auto here = opened();
  const pid_t child = in_process([&] {
    const auto there = opened();
    if (!there->gpu(1)->set_power_limit(300_W).ok()) _exit(1);
    if (!there->set_load(0, 1).ok()) _exit(2);
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(here->gpu(1)->power_limit()->value, 300);
  EXPECT_GT(here->truth(0).power.value, 300);
  EXPECT_EQ(opened()->began(), here->began());
}

TEST_F(SharedSimulation, SurvivesProcessesKilledAtAnyPoint) {
  const auto here = opened();
  const unsigned seed = 20240611;
  std::mt19937 random(seed);
  double energy = 0;
  for (int round = 0; round < 60; ++round) {
    const pid_t child = in_process([&] {
      const auto there = opened();
      for (int i = 0;; ++i) {
        (void)there->gpu(0)->set_power_limit(i % 2 == 0 ? 200_W : 400_W);
        (void)there->set_load(0, i % 3 / 2.0);
        (void)there->gpu(0)->set_locked_clocks(ClockDomain::kGraphics,
                                               {{210}, {900 + i % 30 * 15}});
      }
    });
    // Real time, so that the process is killed at any point of its loop.
    usleep(std::uniform_int_distribution(500, 8000)(random));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const double limit = here->gpu(0)->power_limit()->value;
    EXPECT_TRUE(limit == 200 || limit == 400 || limit == 467) << limit << ", seed " << seed;
    const SimulatedTruth truth = here->truth(0);
    EXPECT_GE(truth.energy.value, energy);
    EXPECT_LT(truth.power.value, 600);
    energy = truth.energy.value;
  }
  EXPECT_EQ(here->gpu(0)->power_limit_range()->highest, 467_W);
}

TEST_F(SharedSimulation, AProcessKilledWithinAChangeLeavesNothingOfIt) {
  const SimulatedGpuSpec spec = *catalogue_gpu("a40");
  const auto opened_memory = [&] {
    return *StateMemory::open_shared(state(), {initial_state(spec)}, {1, 0}, false);
  };
  const auto memory = opened_memory();
  for (int round = 1; round <= 20; ++round) {
    memory->update(0, [&](SimulatedGpuState& gpu, WorkTable*) { gpu.limit_w = round; });
    const pid_t child = in_process([&] {
      opened_memory()->update(0, [&](SimulatedGpuState& gpu, WorkTable*) {
        gpu.limit_w = -1;
        kill(getpid(), SIGKILL);
      });
    });
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    double limit = 0;
    memory->update(0, [&](SimulatedGpuState& gpu, WorkTable*) { limit = gpu.limit_w; });
    ASSERT_EQ(limit, round);
  }
}

TEST_F(SharedSimulation, ProcessesThatStartTogetherMakeItOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_process([&] {
      const std::int64_t began = opened()->began().ns;
      if (write(ends[1], &began, sizeof began) != sizeof began) _exit(1);
    }));
  }
  const std::int64_t wanted = opened()->began().ns;
  for (const pid_t child : children) {
    std::int64_t began = 0;
    ASSERT_EQ(read(ends[0], &began, sizeof began), static_cast<ssize_t>(sizeof began));
    EXPECT_EQ(began, wanted);
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  close(ends[1]);
  for (const auto& file : std::filesystem::directory_iterator(state().parent_path())) {
    EXPECT_TRUE(file.path() == state() || file.path() == config()) << file.path();
  }
}

TEST_F(SharedSimulation, TwoWorksOnOneGpuTakeTwiceAsLong) {
  const auto here = opened();
  const SimulatedWork work{{{1410_MHz, 0.2_s, 300_W}}};
  const pid_t child = in_process([&] {
    if (!opened()->run(0, work).ok()) _exit(1);
  });
  ASSERT_TRUE(eventually([&] { return here->truth(0).power.value >= 250; }));
  const auto span = here->run(0, work);
  ASSERT_TRUE(span.ok());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_GT((span->end - span->begin).value, 0.25);
  EXPECT_LT((span->end - span->begin).value, 0.41);
}

TEST_F(SharedSimulation, IsForItsUserAloneUnlessSharedByEveryone) {
  struct stat status{};
  opened();
  ASSERT_EQ(stat(state().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  std::filesystem::remove(state());
  configure("shared_by = \"everyone\"\n");
  opened();
  ASSERT_EQ(stat(state().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666u);
}

TEST_F(SharedSimulation, RefusesTheStateOfAnotherConfigurationAndWhatIsNoState) {
  opened();
  configure("seed = 9\n");
  const auto other = Simulation::open(config());
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().text(), HasSubstr("remove it when no process uses it"));
  ASSERT_TRUE(write_file(state(), "no state").ok());
  EXPECT_FALSE(Simulation::open(config()).ok());
  std::filesystem::remove(state());
  std::filesystem::create_symlink("elsewhere", state());
  EXPECT_FALSE(Simulation::open(config()).ok());
}

TEST_F(SharedSimulation, SaysWhichFileIsMissingOrWrong) {
  EXPECT_THAT(Simulation::open("/nowhere/sim.toml").error().text(), HasSubstr("/nowhere/sim.toml"));
  ASSERT_TRUE(write_file(config(), "[[gpu]]\nmodel = 3\n").ok());
  EXPECT_THAT(Simulation::open(config()).error().text(), HasSubstr("sim.toml:2:"));
}

}  // namespace
}  // namespace harpe::device
