#include "harpe/node/agent/saved_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

#include "harpe/base/test_directory_testing.h"
#include "harpe/node/agent/disk_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kReserve = 8192;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SavedGpu changed(const std::string& uuid) {
  SavedGpu gpu;
  gpu.uuid = uuid;
  gpu.holder = "uid 1000, pid 4242";
  gpu.power_limit = 300.25_W;
  gpu.graphics = SavedLock{};
  return gpu;
}

class StateFileTest : public ::testing::Test {
 protected:
  StateFile::Opened open(const std::string& boot = "boot-1") {
    file_ = std::make_unique<StateFile>();
    auto opened = file_->open(make_file_storage(path_, kReserve), boot);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().text());
    return opened.ok() ? *opened : StateFile::Opened();
  }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const TestDirectory directory_;
  const fs::path path_ = directory_ / "agent-state.json";
  std::unique_ptr<StateFile> file_;
};

TEST_F(StateFileTest, TheNextAgentKnowsWhetherTheLastStoppedInOrder) {
  EXPECT_FALSE(open().stopped);
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  EXPECT_FALSE(open().stopped) << "as if killed";
  ASSERT_TRUE(file_->mark_stopped().ok());
  const StateFile::Opened opened = open();
  EXPECT_TRUE(opened.stopped);
  EXPECT_THAT(opened.to_restore, ElementsAre(changed("GPU-1")));
  EXPECT_EQ(file_->entry("GPU-1"), changed("GPU-1"));
  EXPECT_FALSE(file_->entry("GPU-2"));
  EXPECT_FALSE(open().stopped) << "that was the one before";
}

TEST_F(StateFileTest, TheNextAgentGetsWhatWasNotTakenOut) {
  EXPECT_THAT(open().to_restore, IsEmpty());
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  ASSERT_TRUE(file_->put(changed("GPU-2")).ok());
  SavedGpu more = changed("GPU-2");
  more.persistence_mode = false;
  more.memory = SavedLock{ClockRange{{1215}, {1215}}};
  ASSERT_TRUE(file_->put(more).ok());
  ASSERT_TRUE(file_->take_out("GPU-1").ok());
  const StateFile::Opened next = open();
  ASSERT_THAT(next.to_restore, SizeIs(1));
  EXPECT_EQ(next.to_restore[0], more);
  EXPECT_THAT(next.events, IsEmpty());
  EXPECT_THAT(open().to_restore, SizeIs(1)) << "until it was restored";
}

TEST_F(StateFileTest, AfterARestartOfTheMachineNothingIsPutBack) {
  open();
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  const StateFile::Opened next = open("boot-2");
  EXPECT_THAT(next.to_restore, IsEmpty());
  ASSERT_THAT(next.events, SizeIs(1));
  EXPECT_THAT(next.events[0], HasSubstr("restarted"));
  EXPECT_THAT(open("boot-2").events, IsEmpty());
}

TEST_F(StateFileTest, EveryTruncationIsKeptAsideAndNoticed) {
  open();
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  const std::string whole = content();
  for (std::size_t size = 0; size < whole.rfind('}'); size += 7) {
    std::ofstream(path_) << whole.substr(0, size);
    const StateFile::Opened next = open();
    EXPECT_THAT(next.to_restore, IsEmpty());
    ASSERT_THAT(next.events, SizeIs(1)) << size;
    EXPECT_THAT(next.events[0], HasSubstr(path_.string() + ".damaged-"));
  }
  EXPECT_TRUE(fs::exists(path_.string() + ".damaged-1"));
  EXPECT_TRUE(fs::exists(path_.string() + ".damaged-2"));
  EXPECT_THAT(open().events, IsEmpty());
}

TEST_F(StateFileTest, AFileThatOthersCouldHaveWrittenIsNotBelieved) {
  open();
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms{0600});
  fs::permissions(path_, fs::perms{0666});
  const StateFile::Opened next = open();
  EXPECT_THAT(next.to_restore, IsEmpty());
  EXPECT_THAT(next.events, SizeIs(1));
}

TEST_F(StateFileTest, WhatCannotBeWrittenIsReadAllTheSame) {
  open();
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  EXPECT_EQ(file_->trouble(), "");
  fs::remove(path_.string() + ".spare");
  fs::create_directory(path_.string() + ".spare");  // makes the next write fail
  EXPECT_THAT(open().to_restore, ElementsAre(changed("GPU-1")));
  EXPECT_THAT(file_->trouble(), HasSubstr(".spare"));
  EXPECT_FALSE(file_->put(changed("GPU-2")).ok());
  fs::remove(path_.string() + ".spare");
  ASSERT_TRUE(file_->put(changed("GPU-2")).ok());
  EXPECT_EQ(file_->trouble(), "");
  EXPECT_THAT(open().to_restore, SizeIs(2));
}

TEST_F(StateFileTest, APipeInItsPlaceIsMovedAside) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const StateFile::Opened opened = open();
  EXPECT_THAT(opened.events, SizeIs(1));
  EXPECT_TRUE(file_->put(changed("GPU-1")).ok());
}

// Even on a full disk, an agent can save the settings that it changes and remove the settings that
// it restored, and so can the next agent.
TEST(StateFileOnAFullDisk, GoesOnInTheSpaceItTook) {
  const auto disk = SmallDisk::make(256 << 10);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  const auto opened = [&](StateFile& file) {
    auto found = file.open(make_file_storage(disk->path() / "state.json", kReserve), "boot");
    EXPECT_TRUE(found.ok());
    EXPECT_EQ(file.trouble(), "");
    return found.ok() ? *found : StateFile::Opened();
  };
  StateFile file;
  opened(file);
  disk->fill();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(file.put(changed("GPU-" + std::to_string(i))).ok()) << i;
  }
  StateFile next;
  EXPECT_THAT(opened(next).to_restore, SizeIs(20));
  for (int i = 1; i < 20; ++i) {
    ASSERT_TRUE(next.take_out("GPU-" + std::to_string(i)).ok()) << i;
  }
  EXPECT_THAT(opened(file).to_restore, ElementsAre(changed("GPU-0")));
  // More than the reserved space: the previous state stays.
  for (int i = 0; i < 200; ++i) (void)file.put(changed("GPU-" + std::to_string(i)));
  EXPECT_NE(file.trouble(), "");
  const std::size_t kept = [&] {
    StateFile reader;
    return reader.open(make_file_storage(disk->path() / "state.json", 0), "boot")
        ->to_restore.size();
  }();
  EXPECT_GT(kept, 20);
  EXPECT_LT(kept, 200);
}

TEST_F(StateFileTest, AFailedWriteIsReportedAndForgotten) {
  open();
  ASSERT_TRUE(file_->put(changed("GPU-1")).ok());
  fs::rename(directory_.path(), directory_.path().string() + "-gone");
  EXPECT_FALSE(file_->put(changed("GPU-2")).ok());
  EXPECT_FALSE(file_->take_out("GPU-1").ok());
  fs::rename(directory_.path().string() + "-gone", directory_.path());
  ASSERT_TRUE(file_->put(changed("GPU-3")).ok());
  EXPECT_THAT(open().to_restore, SizeIs(2));
}

TEST(SavedState, FaultsNameTheirPlaces) {
  const auto state = parse_saved_state(
      "{\"format\": \"x\", \"boot_id\": \"b\", \"gpus\": [\n"
      "{\"uuid\": \"\", \"power_limit_w\": -1},\n"
      "{\"uuid\": \"a\", \"graphics_clocks_mhz\": [3, 2]},\n"
      "{\"uuid\": \"a\", \"other\": 1}]}",
      "state.json");
  ASSERT_FALSE(state.ok());
  const std::string text = state.error().text();
  EXPECT_THAT(text, HasSubstr("state.json:1:12: format"));
  EXPECT_THAT(text, HasSubstr("state.json:2:10: uuid"));
  EXPECT_THAT(text, HasSubstr("power_limit_w: expected 0 to"));
  EXPECT_THAT(text, HasSubstr("graphics_clocks_mhz: expected null or"));
  EXPECT_THAT(text, HasSubstr("'a' is given twice"));
  EXPECT_THAT(text, HasSubstr("no key 'other'"));
}

TEST(SavedState, AnyStateReadsAsItWasWritten) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  for (int round = 0; round < 200; ++round) {
    SavedState state{"boot " + std::to_string(upto(9)), {}};
    state.stopped = upto(1) == 0;
    const int gpus = upto(4);
    for (int i = 0; i < gpus; ++i) {
      SavedGpu gpu;
      gpu.uuid = "GPU-\"\\\n" + std::to_string(i);
      if (upto(1) == 0) gpu.power_limit = Watts{upto(1000000) / 997.0};
      if (upto(1) == 0) gpu.persistence_mode = upto(1) == 0;
      if (upto(1) == 0) gpu.graphics = SavedLock{};
      if (upto(1) == 0) gpu.memory = SavedLock{ClockRange{{upto(100)}, {100 + upto(900)}}};
      state.gpus.push_back(gpu);
    }
    const auto again = parse_saved_state(text_of(state), "state.json");
    ASSERT_TRUE(again.ok()) << again.error().text();
    ASSERT_EQ(*again, state);
  }
}

}  // namespace
}  // namespace harpe::node
