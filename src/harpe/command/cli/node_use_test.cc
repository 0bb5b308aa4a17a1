// Processes on GPUs, read from a procfs that the test writes.

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "harpe/command/cli/monitor_view.h"

namespace harpe::command {
namespace {

using ::testing::ElementsAre;

class NodeUse : public ::testing::Test {
 protected:
  NodeUse() {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    proc_ = std::filesystem::path(::testing::TempDir()) /
            ("proc-" + name + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(proc_);
  }
  ~NodeUse() override { std::filesystem::remove_all(proc_); }

  void put(const std::string& pid, const std::string& file, std::string_view text) {
    std::filesystem::create_directories(proc_ / pid);
    std::ofstream(proc_ / pid / file) << text;
  }

  std::filesystem::path proc_;
};

TEST_F(NodeUse, SaysWhoRunsWhatForWhichJob) {
  using std::string_view_literals::operator""sv;
  put("17", "cmdline", "/usr/bin/python\0train.py\0--data\0/a/b\0"sv);
  put("17", "environ", "HOME=/root\0XHARPE_JOB=no\0HARPE_JOB=gpt3\0SLURM_JOB_ID=12\0"sv);
  const GpuUser user = process_of(17, proc_);
  EXPECT_EQ(user.program, "python train.py --data /a/b");
  EXPECT_EQ(user.job, "gpt3");
  EXPECT_FALSE(user.user.empty());

  put("18", "cmdline", "");
  put("18", "comm", "kworker\n");
  put("18", "environ", "SLURM_JOB_ID=12\0"sv);
  EXPECT_EQ(process_of(18, proc_).program, "kworker");
  EXPECT_EQ(process_of(18, proc_).job, "12");
}

TEST_F(NodeUse, AProcessThatCannotBeSeenIsItsNumber) {
  const GpuUser user = process_of(999, proc_);
  EXPECT_EQ(user.pid, 999);
  EXPECT_EQ(user.program + user.user + user.job, "");
}

TEST_F(NodeUse, IsOneEntryAProcessWithItsGpusAndLease) {
  put("17", "comm", "train\n");
  put("20", "comm", "serve\n");
  const node::Lease clocks{.id = {},
                           .gpus = {2},
                           .uid = 0,
                           .pid = 20,
                           .name = "serve.py",
                           .expires_in = {},
                           .controls = {node::Control::kClocks}};
  node::Lease orphan = clocks;
  orphan.pid = 21;
  orphan.gpus = {5};
  const auto users =
      gpu_users({{0, {17}}, {1, {20, 17}}, {2, {20}}, {3, {}}}, {clocks, orphan}, proc_);
  ASSERT_EQ(users.size(), 3U);
  EXPECT_THAT(users[0].gpus, ElementsAre(0, 1));
  EXPECT_EQ(users[0].lease, "");
  EXPECT_THAT(users[1].gpus, ElementsAre(1, 2));
  EXPECT_EQ(users[1].lease, node::text_of(clocks.controls));
  EXPECT_EQ(users[2].program, "serve.py") << "the process has ended, its lease has not";
}

}  // namespace
}  // namespace harpe::command
