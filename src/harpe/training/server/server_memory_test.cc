// Memory of a server that jobs may use, as clients see it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/training/server/server_testing.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr const char* kManyRanks =
    R"({"stages":1,"tensor":262144,"schedule":"1f1b","micro_batches":1})";

TEST(Memory, RanksThatAreDeclaredAndNeverComeLeaveRoomForJobsThatTrain) {
  const TestServer server({.most_memory = 1024 * kMebibyte});
  for (int i = 0; i < 54; ++i) {
    const TestResponse response =
        server.ask("PUT", "/v1/jobs/declared" + std::to_string(i), kManyRanks);
    ASSERT_EQ(response.status, 201) << i << ": " << response.body;
  }
  begin(server, "trains");
  EXPECT_TRUE(eventually([&] { return planned(server, "trains"); }));
}

TEST(Memory, RanksThatRegisterNeedRoom) {
  const TestServer server({.most_memory = 8 * kMebibyte});
  // As the only job of its client, it may use all the memory: 256 ranks in each of 64 parts.
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/large", kManyRanks).status, 201);
  TestResponse last;
  int taken = 0;
  for (; taken < 1024; ++taken) {
    nlohmann::json rank = nlohmann::json::parse(test_rank(0, 0, "s" + std::to_string(taken)));
    rank["tensor"] = 256 * taken;
    last = server.ask("POST", "/v1/jobs/large/ranks", rank.dump());
    if (last.status != 200) break;
  }
  EXPECT_EQ(last.status, 503) << last.body;
  EXPECT_THAT(last.body, HasSubstr("--job-memory"));
  EXPECT_GT(taken, 10);
  // Ranks that have places keep them.
  EXPECT_EQ(server.ask("POST", "/v1/jobs/large/ranks", test_rank(0, 0, "s0")).status, 200);
}

}  // namespace
}  // namespace harpe::training
