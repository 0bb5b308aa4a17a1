#include "harpe/node/agent/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "harpe/base/json.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/node/agent/disk_testing.h"
#include "harpe/node/agent/memory_files_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JsonValue parsed(const std::string& line) {
  auto value = parse_json(line, "audit");
  EXPECT_TRUE(value.ok()) << line;
  return value.ok() ? *std::move(value) : JsonValue();
}

AuditEntry refusal_of(std::int64_t uid, const std::string& why = "no") {
  AuditEntry entry{.action = "take", .to = "GPU 0", .result = "refused: " + why};
  entry.peer.uid = uid;
  return entry;
}

class AuditLogTest : public ::testing::Test {
 protected:
  static std::vector<JsonValue> entries(const fs::path& path) {
    std::vector<JsonValue> found;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      auto value = parse_json(line, path.string());
      EXPECT_TRUE(value.ok()) << line;
      if (value.ok()) found.push_back(*std::move(value));
    }
    return found;
  }

  /// Opens the file and lets the log write to it.
  Status opened(AuditLog& log) const {
    auto sink = HARPE_TRY(open_audit_file(path_));
    log.open(std::move(sink));
    return ok_status();
  }

  const TestDirectory directory_;
  const fs::path path_ = directory_ / "audit.jsonl";
};

TEST_F(AuditLogTest, SaysWhoDidWhatAndWhatCameOfIt) {
  AuditLog log;
  ASSERT_TRUE(opened(log).ok());
  AuditEntry entry{.action = "power_limit", .lease = "0123456789abcdef", .gpu = "GPU-1"};
  entry.peer.uid = 1000;
  entry.peer.pid = 42;
  entry.from = "300 W";
  entry.to = "250 W";
  entry.result = "applied";
  entry.changes = {{0.0000014, 900}, {0.5, 1410}};
  ASSERT_TRUE(log.write(entry).ok());
  const auto lines = entries(path_);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].find("uid")->integer, 1000);
  EXPECT_EQ(lines[0].find("pid")->integer, 42);
  EXPECT_EQ(lines[0].find("lease")->string, "01234567") << "not the whole: that would be the key";
  EXPECT_EQ(lines[0].find("to")->string, "250 W");
  EXPECT_EQ(lines[0].find("changes")->items[1].items[1].integer, 1410);
  EXPECT_EQ(lines[0].find("time")->string.size(),
            std::string("2026-03-01T12:00:00.123456Z").size());
  EXPECT_EQ(lines[0].find("token"), nullptr);
}

TEST_F(AuditLogTest, LinesOfManyThreadsDoNotMix) {
  AuditLog log;
  ASSERT_TRUE(opened(log).ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log, i] {
      for (int j = 0; j < 100; ++j) {
        EXPECT_TRUE(
            log.write({.action = "take", .to = std::string(static_cast<std::size_t>(500 * i), 'x')})
                .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(entries(path_), SizeIs(400));
}

TEST_F(AuditLogTest, GoesOnInANewFileAfterARotation) {
  AuditLog log;
  ASSERT_TRUE(opened(log).ok());
  ASSERT_TRUE(log.write({.action = "take"}).ok());
  fs::rename(path_, directory_ / "old");
  ASSERT_TRUE(log.reopen().ok());
  ASSERT_TRUE(log.write({.action = "release"}).ok());
  EXPECT_THAT(entries(path_), SizeIs(1));
  EXPECT_THAT(entries(directory_ / "old"), SizeIs(1));
}

TEST_F(AuditLogTest, GoesOnInAFileThatARotationTruncates) {
  AuditLog log;
  ASSERT_TRUE(opened(log).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(log.write({.action = "take"}).ok());
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  ASSERT_TRUE(log.write({.action = "release"}).ok());
  EXPECT_THAT(entries(path_), SizeIs(1));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, static_cast<off_t>(kAuditReserve / 2)) << "no reserve";
}

TEST_F(AuditLogTest, WhatIsNoFileOfThisUserIsRefused) {
  AuditLog log;
  fs::create_symlink(directory_ / "elsewhere", path_);
  EXPECT_EQ(opened(log).error().code, ErrorCode::kIo);
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(opened(log).error().code, ErrorCode::kIo) << "and does not wait for a reader";
  fs::remove(path_);
  std::ofstream(path_) << "";
  fs::permissions(path_, fs::perms{0666});
  EXPECT_EQ(opened(log).error().code, ErrorCode::kNoPermission);
  fs::permissions(path_, fs::perms{0640});
  EXPECT_TRUE(opened(log).ok());
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path_.c_str(), 12001, 12001), 0);
  EXPECT_EQ(opened(log).error().code, ErrorCode::kNoPermission);
}

TEST_F(AuditLogTest, ALineThatAKilledAgentLeftHalfWrittenStaysAlone) {
  std::ofstream(path_) << "{\"action\":\"ta";
  fs::permissions(path_, fs::perms{0640});
  AuditLog log;
  ASSERT_TRUE(opened(log).ok());
  ASSERT_TRUE(log.write({.action = "release"}).ok());
  std::ifstream file(path_);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first, "{\"action\":\"ta");
  EXPECT_EQ(parsed(second).find("action")->string, "release");
}

TEST_F(AuditLogTest, SpaceIsTakenBeforehandAndGivenBackAtTheEnd) {
  struct stat status{};
  {
    AuditLog log;
    ASSERT_TRUE(opened(log).ok());
    ASSERT_TRUE(log.write({.action = "take"}).ok());
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_GE(status.st_blocks * 512, static_cast<off_t>(kAuditReserve / 2));
    EXPECT_LT(status.st_size, 1000) << "beyond the end, so that readers see lines alone";
  }
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 65536);
}

// --- Refusals.

class Refusals : public ::testing::Test {
 protected:
  Refusals() { log_.open(std::make_unique<MemorySink>(memory_)); }
  Instant at(double seconds) const { return Instant{} + Seconds{seconds}; }
  /// Returns the number of refusals that the lines report, by user.
  std::map<std::int64_t, std::int64_t> told() const {
    std::map<std::int64_t, std::int64_t> told;
    for (const std::string& text : memory_->lines) {
      const JsonValue line = parsed(text);
      const JsonValue* count = line.find("count");
      const JsonValue* uid = line.find("uid");
      if (line.find("action")->string == "audit_log") continue;
      told[uid == nullptr ? -1 : uid->integer] += count == nullptr ? 1 : count->integer;
    }
    return told;
  }

  std::shared_ptr<MemoryLines> memory_ = std::make_shared<MemoryLines>();
  AuditLog log_;
};

TEST_F(Refusals, OfOneUserTakeTwoLinesAWindowAndAreAllCounted) {
  constexpr int kEach = 20000;  // per second: the most that one core can request
  for (int second = 0; second < 30; ++second) {
    for (int i = 0; i < kEach; ++i) log_.refuse(refusal_of(1000, std::to_string(i)), at(second));
  }
  log_.flush(at(30), true);
  EXPECT_THAT(memory_->lines, SizeIs(4));
  EXPECT_EQ(told()[1000], 30 * kEach);
  const JsonValue line = parsed(memory_->lines[1]);
  EXPECT_EQ(line.find("count")->integer, 10 * kEach - 1) << "the first has its own";
  EXPECT_EQ(line.find("for_s")->number, 10);
  EXPECT_EQ(line.find("result")->string, "refused: 19999") << "the newest";
  EXPECT_EQ(log_.health().refusals, 30U * kEach);
}

TEST_F(Refusals, ThatAreRareHaveALineEachAtOnce) {
  for (int i = 0; i < 10; ++i) {
    log_.refuse(refusal_of(1000), at(i * 11.0));
    EXPECT_THAT(memory_->lines, SizeIs(i + 1));
  }
  EXPECT_EQ(log_.due(at(100)), at(109));
  log_.flush(at(109));
  EXPECT_EQ(log_.due(at(110)), std::nullopt);
  EXPECT_THAT(memory_->lines, SizeIs(10));
}

// A user may have thousands of user IDs (subordinate IDs of a user namespace).
TEST_F(Refusals, OfManyUsersAreBoundedTogether) {
  for (int second = 0; second < 20; ++second) {
    for (int uid = 1; uid <= 5000; ++uid) log_.refuse(refusal_of(uid), at(second));
  }
  log_.flush(at(20), true);
  EXPECT_LE(memory_->lines.size(), 3 * (AuditLog::kMostUsers + 1));
  std::int64_t all = 0;
  for (const auto& [uid, count] : told()) all += count;
  EXPECT_EQ(all, 20 * 5000);
}

TEST_F(Refusals, WithLongTextsAreCut) {
  log_.refuse(refusal_of(1000, std::string(100000, 'x')), at(0));
  EXPECT_LT(memory_->lines[0].size(), 1000);
}

TEST_F(Refusals, WaitWhileTheDiskIsFullAndOtherLinesAreWritten) {
  memory_->has_room = false;
  for (int i = 0; i < 100; ++i) log_.refuse(refusal_of(1000), at(i * 0.5));
  EXPECT_THAT(memory_->lines, IsEmpty());
  ASSERT_TRUE(log_.write({.action = "restore", .result = "applied"}).ok());
  EXPECT_THAT(memory_->lines, SizeIs(1));
  EXPECT_THAT(log_.health().trouble, HasSubstr("refusals are counted and not written"));
  EXPECT_FALSE(log_.failing());
  memory_->has_room = true;
  ASSERT_TRUE(log_.due(at(50)).has_value());
  log_.flush(at(61));
  EXPECT_EQ(log_.health().trouble, "");
  EXPECT_EQ(told()[1000], 100);
}

TEST_F(Refusals, LinesThatCouldNotBeWrittenAreToldOfByTheNext) {
  std::vector<std::string> heard;
  log_.open(std::make_unique<MemorySink>(memory_),
            [&](const std::string& text) { heard.push_back(text); });
  memory_->writable = false;
  EXPECT_EQ(log_.write({.action = "take"}).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(log_.write({.action = "restore"}).ok());
  for (int i = 0; i < 7; ++i) log_.refuse(refusal_of(1000), at(0));
  EXPECT_TRUE(log_.failing());
  EXPECT_EQ(log_.health().lines_lost, 2) << "refusals are not lost: they wait";
  memory_->writable = true;
  log_.flush(at(1));
  EXPECT_FALSE(log_.failing()) << "found out without anything to write";
  log_.flush(at(11));
  ASSERT_THAT(memory_->lines, SizeIs(2));
  EXPECT_EQ(parsed(memory_->lines[0]).find("action")->string, "audit_log");
  EXPECT_EQ(parsed(memory_->lines[0]).find("count")->integer, 2);
  EXPECT_EQ(told()[1000], 7);
  EXPECT_THAT(heard, ElementsAre(HasSubstr("cannot be written: memory: cannot write: No space"),
                                 "the audit log can be written again"));
}

TEST_F(Refusals, AnyHistoryIsCountedToTheLast) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  std::map<std::int64_t, std::int64_t> asked;
  double now = 0;
  for (int step = 0; step < 20000; ++step) {
    now += upto(100) / 100.0;
    if (upto(200) == 0) memory_->has_room = !memory_->has_room;
    if (upto(200) == 0) memory_->writable = !memory_->writable;
    const int uid = upto(20);
    ++asked[uid];
    log_.refuse(refusal_of(uid), at(now));
    if (upto(10) == 0) log_.flush(at(now));
  }
  memory_->has_room = memory_->writable = true;
  log_.flush(at(now), true);
  EXPECT_EQ(told(), asked);
}

// --- A full disk.

TEST(AuditFileOnAFullDisk, KeepsARoomForWhatMustBeWritten) {
  const auto disk = SmallDisk::make(4 << 20);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  AuditLog log;
  auto sink = open_audit_file(disk->path() / "audit.jsonl");
  ASSERT_TRUE(sink.ok()) << sink.error().text();
  log.open(*std::move(sink));
  disk->fill();
  for (int i = 0; i < 1000; ++i) log.refuse(refusal_of(i), Instant{} + Seconds{i * 1.0});
  int written = 0;
  while (log.write({.action = "restore", .result = "applied"}).ok()) ++written;
  EXPECT_GT(written, 3000) << "of a line some 100 bytes long";
  EXPECT_TRUE(log.failing());
  disk->make_room();
  EXPECT_TRUE(log.write({.action = "restore", .result = "applied"}).ok());
  EXPECT_EQ(log.health().trouble, "");
  log.flush(Instant{} + Seconds{2000});
  int refused = 0, lines = 0;
  std::ifstream file(disk->path() / "audit.jsonl");
  for (std::string text; std::getline(file, text); ++lines) {
    const JsonValue line = parsed(text);
    if (line.find("action")->string != "take") continue;
    refused += line.find("count") == nullptr ? 1 : static_cast<int>(line.find("count")->integer);
  }
  EXPECT_EQ(refused, 1000);
  EXPECT_GT(lines, written);
}

TEST(AuditFileOnAFullDisk, OpensWhenThereIsRoomAgain) {
  const auto disk = SmallDisk::make(4 << 20);
  if (disk == nullptr) GTEST_SKIP() << "no disk can be mounted here";
  disk->fill();
  auto sink = open_audit_file(disk->path() / "audit.jsonl");
  ASSERT_TRUE(sink.ok()) << "an agent has to put GPUs back whatever its disk: "
                         << sink.error().text();
  AuditLog log;
  log.open(*std::move(sink));
  EXPECT_FALSE(log.write({.action = "take"}).ok());
  disk->make_room();
  EXPECT_TRUE(log.write({.action = "take"}).ok());
}

}  // namespace
}  // namespace harpe::node
