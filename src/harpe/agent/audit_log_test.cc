#include "harpe/agent/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "harpe/base/json.h"

namespace harpe {
namespace {

namespace fs = std::filesystem;
using ::testing::SizeIs;

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    std::string name = (fs::temp_directory_path() / "harpe-audit-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    path_ = directory_ / "audit.jsonl";
  }
  ~AuditLogTest() override { fs::remove_all(directory_); }

  static std::vector<JsonValue> entries(const fs::path& path) {
    std::vector<JsonValue> found;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      auto value = parse_json(line, path.string());
      EXPECT_TRUE(value.ok()) << line;
      if (value) found.push_back(*std::move(value));
    }
    return found;
  }

  fs::path directory_, path_;
};

TEST_F(AuditLogTest, SaysWhoDidWhatAndWhatCameOfIt) {
  AuditLog log;
  ASSERT_TRUE(log.open(path_).ok());
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
  ASSERT_TRUE(log.open(path_).ok());
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
  ASSERT_TRUE(log.open(path_).ok());
  ASSERT_TRUE(log.write({.action = "take"}).ok());
  fs::rename(path_, directory_ / "old");
  ASSERT_TRUE(log.reopen().ok());
  ASSERT_TRUE(log.write({.action = "release"}).ok());
  EXPECT_THAT(entries(path_), SizeIs(1));
  EXPECT_THAT(entries(directory_ / "old"), SizeIs(1));
}

TEST_F(AuditLogTest, AFullDiskIsAnError) {
  AuditLog log;
  ASSERT_TRUE(log.open("/dev/full").ok());
  const Status status = log.write({.action = "take"});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
}

TEST_F(AuditLogTest, ALinkInItsPlaceIsRefused) {
  fs::create_symlink(directory_ / "elsewhere", path_);
  AuditLog log;
  EXPECT_FALSE(log.open(path_).ok());
}

}  // namespace
}  // namespace harpe
