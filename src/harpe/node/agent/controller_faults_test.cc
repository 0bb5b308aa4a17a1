// Behaviour of a controller whose files, locks or clients are faulty.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "harpe/base/json.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_fixture.h"
#include "harpe/node/agent/disk_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ControllerFaults : public ControllerTest {
 protected:
  std::vector<JsonValue> audit_lines() const {
    std::vector<JsonValue> lines;
    std::ifstream file(options_.audit_log);
    for (std::string text; std::getline(file, text);) {
      auto line = parse_json(text, "audit");
      EXPECT_TRUE(line.ok()) << text;
      if (line.ok()) lines.push_back(*std::move(line));
    }
    return lines;
  }
  /// Leaves GPU 0 at 200 W, as a killed agent does.
  void crash() {
    start();
    const Lease lease = taken(kAlice, {0});
    ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
    const TestGpu::State left = gpu(0).state();
    fs::copy_file(options_.state_file, directory_.path() / "crashed.json");
    controller_.reset();
    fs::rename(directory_.path() / "crashed.json", options_.state_file);
    gpu(0).set(left);
  }
};

// --- Files.

TEST_F(ControllerFaults, PutsBackWhatACrashedAgentLeftThoughNothingCanBeWritten) {
  crash();
  const fs::path spare = options_.state_file.string() + ".spare";
  fs::remove(spare);
  fs::create_directory(spare);
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_THAT(controller_->troubles(), ElementsAre(HasSubstr("the state file cannot be written"),
                                                   HasSubstr("GPU 0 could not be restored yet")))
      << "as far as the file tells the next agent";
  const Lease lease = taken(kAlice, {1});
  EXPECT_FALSE(apply(kAlice, lease.id, 1, limit(200)).ok()) << "it could not be restored";
  EXPECT_EQ(gpu(1).state(), TestGpu::State());
  fs::remove(spare);
  test_clock_.advance(1_s);
  EXPECT_TRUE(apply(kAlice, lease.id, 1, limit(200)).ok());
}

TEST_F(ControllerFaults, PutsBackWhatACrashedAgentLeftBeforeAnythingElseCanFail) {
  crash();
  fs::remove(options_.audit_log);
  ASSERT_EQ(::mkfifo(options_.audit_log.c_str(), 0600), 0);
  const auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().text(), HasSubstr("is not a regular file"));
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
}

TEST_F(ControllerFaults, GoesOnWithAStateFileOnAFullDisk) {
  const auto disk = SmallDisk::make(1 << 20);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  options_.state_file = disk->path() / "state.json";
  start();
  const Lease lease = taken(kAlice, {0, 1, 2});
  disk->fill();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(apply(kAlice, lease.id, i, limit(200)).ok());
  EXPECT_THAT(controller_->troubles(), IsEmpty());
  ASSERT_TRUE(release(kAlice, lease.id).ok());
  for (const auto& one : gpus_) EXPECT_EQ(one->state(), TestGpu::State());
  start();
  EXPECT_THAT(controller_->troubles(), IsEmpty()) << "the next agent has the space, too";
}

// If the audit log is full, nothing is granted or changed, everything is restored, and operators
// see the trouble. The policy may let control continue.
TEST_F(ControllerFaults, AFullAuditLogStopsControlButNotPuttingBack) {
  const auto disk = SmallDisk::make(4 << 20);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  clock_ = &system_clock();
  options_.audit_log = disk->path() / "audit.jsonl";
  start();
  const Lease lease = taken(kAlice, {0});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  disk->fill();
  EXPECT_TRUE(apply(kAlice, lease.id, 0, limit(210)).ok()) << "space is reserved for that";
  fs::resize_file(options_.audit_log, 0);  // removes the reserve
  disk->fill();
  EXPECT_EQ(apply(kAlice, lease.id, 0, limit(220)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(gpu(0).state().limit, 210_W);
  EXPECT_EQ(controller_->take(user(kBob), {{1}, 10_s, true, ""}).error().code,
            ErrorCode::kUnavailable);
  EXPECT_THAT(controller_->leases(user(0)), SizeIs(1));
  EXPECT_THAT(controller_->troubles(), ElementsAre(HasSubstr("the audit log cannot be written")));
  EXPECT_GT(controller_->counts().audit_lines_lost, 0);
  ASSERT_TRUE(release(kAlice, lease.id).ok());
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  disk->make_room();
  EXPECT_TRUE(eventually([&] { return controller_->troubles().empty(); })) << "by itself";
  taken(kBob, {1});
  EXPECT_THAT(controller_->events(), Not(IsEmpty()));
}

TEST_F(ControllerFaults, ThePolicyMayLetControlGoOnWithoutAnAuditLog) {
  const auto disk = SmallDisk::make(1 << 20);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  options_.audit_log = disk->path() / "audit.jsonl";
  disk->fill();
  start(std::string(kPolicy) + "[audit]\nwhen_full = \"allow\"\n");
  const Lease lease = taken(kAlice, {0});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  EXPECT_EQ(gpu(0).state().limit, 200_W);
  EXPECT_THAT(controller_->troubles(), SizeIs(1)) << "it is said all the same";
}

TEST_F(ControllerFaults, AFileOfOthersInPlaceOfTheAuditLogIsNoStart) {
  std::ofstream(options_.audit_log) << "";
  fs::permissions(options_.audit_log, fs::perms{0666});
  const auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kNoPermission);
  EXPECT_THAT(made.error().text(), HasSubstr("chmod o-w"));
}

TEST_F(ControllerFaults, ASocketWhereOthersCouldPutAnotherIsNoStart) {
  fs::create_directory(directory_.path() / "open");
  fs::permissions(directory_.path() / "open", fs::perms{0777});
  options_.clock_socket = directory_.path() / "open" / "clock.sock";
  const auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kNoPermission);
  fs::permissions(directory_.path() / "open", fs::perms{0755});
  EXPECT_TRUE(make().ok());
}

// --- Two agents.

TEST_F(ControllerFaults, OneAgentAStateFile) {
  start();
  const auto second = make();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().text(), HasSubstr("(process " + std::to_string(::getpid()) + ")"));
  EXPECT_THAT(second.error().text(), HasSubstr("the state file"));
}

TEST_F(ControllerFaults, OneAgentAGpuWhereverItKeepsItsFiles) {
  for (const auto& one : gpus_) {
    one->lock_file = directory_.path() / (one->identity().uuid + ".lock");
  }
  start();
  options_.state_file = directory_.path() / "other.json";
  options_.clock_socket = directory_.path() / "other.sock";
  const auto second = make();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().text(),
              HasSubstr("another agent (process " + std::to_string(::getpid()) +
                        ") is running with GPU 0 (GPU-test-0)"));
  controller_.reset();
  EXPECT_TRUE(make().ok()) << "the locks end with the agent";
}

/// Agents that share GPU locks, as with real GPUs, even if their files are in different places.
class ControllerStates : public ControllerFaults {
 protected:
  ControllerStates() {
    for (const auto& one : gpus_) {
      one->lock_file = directory_.path() / (one->identity().uuid + ".lock");
    }
  }
  void use_state(const std::string& name) { options_.state_file = directory_.path() / name; }
};

TEST_F(ControllerStates, RestoresWhatAKilledAgentWithAnotherStateFileLeft) {
  crash();
  const fs::path earlier = options_.state_file;
  use_state("other.json");
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_THAT(controller_->events(), Contains(HasSubstr("took over from " + earlier.string())));
  controller_.reset();

  // The state is restored only once: later settings by others stay.
  TestGpu::State later;
  later.limit = 333_W;
  gpu(0).set(later);
  options_.state_file = earlier;
  start();
  EXPECT_EQ(gpu(0).state(), later);
  EXPECT_THAT(controller_->events(), Not(Contains(HasSubstr("restoring"))));
}

/// For example, a path that systemd lets the agent read but not write.
TEST_F(ControllerStates, ThatCannotBeWrittenIsRestoredFromAllTheSame) {
  crash();
  const fs::path lock = options_.state_file.string() + ".lock";
  fs::remove(lock);
  fs::create_directory(lock);
  use_state("other.json");
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_THAT(controller_->events(), Contains(HasSubstr("cannot remove them from that file")));
}

TEST_F(ControllerStates, UnderAnotherNameIsTheAgentsOwn) {
  crash();
  fs::create_directory_symlink(directory_.path(), directory_.path() / "alias");
  use_state("alias/" + options_.state_file.filename().string());
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
}

TEST_F(ControllerStates, OfAKilledAgentThatTookOverIsRestoredFromByTheThird) {
  crash();
  use_state("other.json");
  start();
  const Lease lease = taken(kAlice, {1});
  ASSERT_TRUE(apply(kAlice, lease.id, 1, limit(210)).ok());
  const TestGpu::State second = gpu(1).state();
  fs::copy_file(options_.state_file, directory_.path() / "crashed.json");
  controller_.reset();
  fs::rename(directory_.path() / "crashed.json", options_.state_file);
  gpu(1).set(second);
  use_state("third.json");
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_EQ(gpu(1).state(), TestGpu::State());
}

TEST_F(ControllerStates, IsNotStartedBesideAnAgentThatHasTheStateFileOfItsGpu) {
  crash();
  const fs::path earlier = options_.state_file;
  // The first agent runs without the GPU that it left changed.
  auto mine = std::move(gpus_[0]);
  gpus_.erase(gpus_.begin());
  start();
  gpus_.insert(gpus_.begin(), std::move(mine));
  gpus_.resize(1);
  use_state("other.json");
  options_.clock_socket = directory_.path() / "other.sock";
  const auto second = make();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().text(),
              HasSubstr(earlier.string() + ", which states what settings GPU "));
}

TEST_F(ControllerStates, OfOthersWhoCouldWriteItIsNotRestored) {
  crash();
  const TestGpu::State left = gpu(0).state();
  fs::permissions(options_.state_file, fs::perms{0666});
  const fs::path earlier = options_.state_file;
  use_state("other.json");
  start();
  EXPECT_EQ(gpu(0).state(), left);
  EXPECT_THAT(controller_->events(), Contains(HasSubstr("the state file " + earlier.string() +
                                                        " of the agent that had these GPUs")));
}

TEST_F(ControllerStates, ThatIsGoneKeepsNoAgentFromStarting) {
  crash();
  fs::remove(options_.state_file);
  use_state("other.json");
  start();
  EXPECT_THAT(controller_->events(), IsEmpty());
}

// --- Clients.

TEST_F(ControllerFaults, RefusalsOfOneUserDoNotFillTheAuditLog) {
  start();
  constexpr int kTimes = 5000;
  for (int i = 0; i < kTimes; ++i) {
    EXPECT_FALSE(controller_->take(user(54321), {{0}, 10_s, true, ""}).ok());
    EXPECT_FALSE(apply(54321, "no such lease", 0, limit(200)).ok());
  }
  EXPECT_EQ(controller_->counts().refusals, 2 * kTimes);
  controller_.reset();
  const auto lines = audit_lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].find("uid")->integer, 54321);
  EXPECT_EQ(lines[1].find("count")->integer, 2 * kTimes - 1);
}

TEST_F(ControllerFaults, AUserWhoMaySetCannotFillItEither) {
  options_.leases = {.per_user = 64, .per_second = 1, .at_once = 10};
  start();
  int taken_leases = 0;
  std::string refusal;
  for (int i = 0; i < 1000; ++i) {
    const auto lease = controller_->take(user(kAlice), {{0}, 10_s, true, ""});
    if (lease.ok()) {
      ++taken_leases;
      ASSERT_TRUE(release(kAlice, lease->id).ok());
    } else {
      refusal = lease.error().text();
    }
    test_clock_.advance(0.01_s);
  }
  EXPECT_NEAR(taken_leases, 10 + 10, 1);
  EXPECT_THAT(refusal, HasSubstr("you take leases too often: try again in 1 s"));
  taken(kBob, {0});  // other users are not limited
  controller_.reset();
  EXPECT_LT(audit_lines().size(), 60);
}

TEST_F(ControllerFaults, OneUserHoldsSoManyLeasesAndNoMore) {
  options_.leases.per_user = 2;
  start();
  taken(kAlice, {0});
  taken(kAlice, {1});
  const auto third = controller_->take(user(kAlice), {{2}, 10_s, true, ""});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kUnavailable);
  taken(kBob, {2});
}

}  // namespace
}  // namespace harpe::node
