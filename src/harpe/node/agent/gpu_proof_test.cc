#include "harpe/node/agent/gpu_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/device_filter_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
constexpr Proofs kDevice{Proof::kDevice}, kComputing{Proof::kComputing};

/// The client is this process; its cgroups are files of the test. /dev/null (1:3) is the device
/// file of GPU 0.
class GpuProof : public ::testing::Test {
 protected:
  GpuProof() {
    peer_.uid = ::geteuid();
    peer_.pid = ::getpid();
    peer_.start_ticks = net::start_of_process(::getpid()).value();
    fs::create_directories(roots_.processes / std::to_string(peer_.pid));
    place("4:devices:/job_1\n0::/unused\n", "/job_1");
  }
  /// Puts the client into a cgroup (v1) with this device list.
  void place(const std::string& cgroup, const std::string& path,
             const std::string& list = "c 1:3 rwm\n") {
    std::ofstream(roots_.processes / std::to_string(peer_.pid) / "cgroup") << cgroup;
    const fs::path directory = roots_.cgroups / "devices" / path.substr(1);
    fs::create_directories(directory);
    std::ofstream(directory / "devices.list") << list;
  }
  void list(const std::string& text) { place("4:devices:/job_1\n", "/job_1", text); }
  /// Returns true if the GPU is proven after the earlier verdict has expired.
  bool proven(int gpu = 0) {
    now_ = now_ + GpuProver::kVerdictLasts;
    return prover_.proven(peer_, gpu, kDevice, now_) == kDevice;
  }

  TestDirectory directory_;
  GpuProver::Roots roots_{directory_.path() / "proc", directory_.path() / "cgroup"};
  GpuProver prover_{{"/dev/null", "/dev/zero", ""}, roots_};
  net::Peer peer_;
  Instant now_{1'000'000'000};
};

TEST_F(GpuProof, IsGivenByACgroupThatListsTheDeviceAndNotEverything) {
  list("c 1:3 rwm\nc 5:* rw\n");
  EXPECT_TRUE(proven());
  EXPECT_FALSE(proven(1)) << "not listed";
  EXPECT_FALSE(proven(2)) << "no device file is known";
  list("c 1:* rw\n");
  EXPECT_TRUE(proven(1));
  for (const char* everything : {"a *:* rwm\n", "c *:* rwm\nc 1:3 rwm\n"}) {
    list(everything);
    EXPECT_FALSE(proven()) << "a cgroup that keeps from nothing shows nothing: " << everything;
  }
  list("what is this\n");
  EXPECT_FALSE(proven());
}

TEST_F(GpuProof, IsLookedForOnceASecondHoweverOftenAClientAsks) {
  list("c 1:3 rwm\n");
  EXPECT_TRUE(proven());
  list("c 1:5 rwm\n");
  EXPECT_EQ(prover_.proven(peer_, 0, kDevice, now_ + 0.9_s), kDevice);
  EXPECT_EQ(prover_.proven(peer_, 0, kDevice, now_ + 1.1_s), Proofs());
}

TEST_F(GpuProof, IsNotGivenByWhatCannotBeFoundOut) {
  list("c 1:3 rwm\n");
  place("4:devices:/../other\n", "/job_1");
  EXPECT_FALSE(proven()) << "out of this namespace";
  place("nonsense\n", "/job_1");
  EXPECT_FALSE(proven());
  place("4:devices:/none\n", "/job_1");
  EXPECT_FALSE(proven());
  place("4:cpu,devices:/job_1\n", "/job_1");
  EXPECT_TRUE(proven());
  ++peer_.start_ticks;
  EXPECT_FALSE(proven()) << "another process has its number";
  --peer_.start_ticks;
  ++peer_.uid;
  EXPECT_FALSE(proven()) << "another user's";
  peer_.uid = -1;
  EXPECT_FALSE(proven()) << "the holder of a token";
}

TEST_F(GpuProof, LastsAsLongAsTheCgroupOfAClientThatHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  peer_.pid = child;
  peer_.start_ticks = net::start_of_process(child).value();
  fs::create_directories(roots_.processes / std::to_string(child));
  list("c 1:3 rwm\n");
  EXPECT_TRUE(proven());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(proven()) << "its cgroup is still there";
  const fs::path job = roots_.cgroups / "devices" / "job_1";
  fs::rename(job, roots_.cgroups / "moved");
  EXPECT_FALSE(proven());
  fs::create_directories(job);
  std::ofstream(job / "devices.list") << "c 1:3 rwm\n";
  EXPECT_FALSE(proven()) << "another one of that name";
  fs::remove_all(job);
  fs::rename(roots_.cgroups / "moved", job);
  EXPECT_TRUE(proven());
  prover_.keep({});
  EXPECT_FALSE(proven()) << "forgotten with its lease";
}

TEST_F(GpuProof, IsGivenByADeviceFileOfTheUserAlone) {
  const fs::path file = directory_.path() / "gpu";
  if (::mknod(file.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0 ||
      ::chown(file.c_str(), ::geteuid(), 0) != 0) {
    GTEST_SKIP() << "no devices can be made here";
  }
  GpuProver prover({file}, roots_);
  const auto proven_now = [&] {
    now_ = now_ + GpuProver::kVerdictLasts;
    return prover.proven(peer_, 0, kDevice, now_) == kDevice;
  };
  list("a *:* rwm\n");
  EXPECT_TRUE(proven_now());
  ASSERT_EQ(::chown(file.c_str(), 12002, 0), 0);
  EXPECT_FALSE(proven_now());
  ASSERT_EQ(::chown(file.c_str(), ::geteuid(), 0), 0);
  for (const unsigned mode : {0660U, 0604U, 0400U}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    EXPECT_FALSE(proven_now()) << "others may open it, or the user may not";
  }
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  list("c 1:5 rwm\n");
  EXPECT_FALSE(proven_now()) << "the cgroup keeps the client from it";
}

TEST_F(GpuProof, OfComputingNeedsAProcessOfTheUserAndNoOthers) {
  fs::create_directories(roots_.processes / "1");  // owned by this process's user
  peer_.uid = ::getuid();
  const auto computes = [&] { return prover_.proven(peer_, 0, kComputing, now_) == kComputing; };
  EXPECT_FALSE(computes()) << "not known yet";
  prover_.computing(0, std::vector<std::int64_t>{1}, now_);
  EXPECT_TRUE(computes());
  prover_.computing(0, std::vector<std::int64_t>{}, now_);
  EXPECT_FALSE(computes()) << "nothing runs";
  prover_.computing(0, std::vector<std::int64_t>{77}, now_);
  EXPECT_FALSE(computes()) << "it has ended";
  prover_.computing(0, std::nullopt, now_);
  EXPECT_FALSE(computes()) << "the driver does not tell";
  prover_.computing(0, std::vector<std::int64_t>{1}, now_);
  now_ = now_ + GpuProver::kListLasts + 1_s;
  EXPECT_FALSE(computes()) << "too old";
  prover_.computing(0, std::vector<std::int64_t>{1}, now_);
  peer_.uid = 12002;
  EXPECT_FALSE(computes()) << "of another user";
}

/// A process in a cgroup, and its identity as a client.
struct Inmate {
  explicit Inmate(const TestCgroup& cgroup) : process(::fork()) {
    if (process == 0) {
      for (;;) ::pause();
    }
    EXPECT_TRUE(cgroup.add(process));
    peer.uid = ::geteuid();
    peer.pid = process;
    peer.start_ticks = net::start_of_process(process).value();
  }
  ~Inmate() {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  pid_t process;
  net::Peer peer;
};

TEST(GpuProofOfTheKernel, ReadsListsOfV1) {
  const auto cgroup = TestCgroup::make("/sys/fs/cgroup/devices");
  if (cgroup == nullptr || !cgroup->write("devices.deny", "a")) {
    GTEST_SKIP() << "no device cgroups (v1) can be made here";
  }
  ASSERT_TRUE(cgroup->write("devices.allow", "c 1:3 rwm"));
  const Inmate inmate(*cgroup);
  GpuProver prover({"/dev/null", "/dev/zero"}, GpuProver::Roots());
  EXPECT_EQ(prover.proven(inmate.peer, 0, kDevice, {}), kDevice);
  EXPECT_EQ(prover.proven(inmate.peer, 1, kDevice, {}), Proofs());
}

TEST(GpuProofOfTheKernel, ReadsProgramsOfV2) {
  const auto cgroup = TestCgroup::make(unified_tree());
  if (cgroup == nullptr || !cgroup->attach(device_program({{.major = 1, .minor = 3}}))) {
    GTEST_SKIP() << "no device cgroups (v2) can be made here";
  }
  const Inmate inmate(*cgroup);
  GpuProver prover({"/dev/null", "/dev/zero"}, GpuProver::Roots());
  EXPECT_EQ(prover.proven(inmate.peer, 0, kDevice, {}), kDevice);
  EXPECT_EQ(prover.proven(inmate.peer, 1, kDevice, {}), Proofs());
}

}  // namespace
}  // namespace harpe::node
