#include "harpe/net/http/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace harpe::net {
namespace {

using Place = Admission::Place;
using ::testing::ElementsAre;

TEST(Admission, HasAReserveForWhoFindsNoRoom) {
  Admission admission({.connections = 3, .per_client = 2, .reserve = 34});
  EXPECT_EQ(admission.enter("a", false), Place::kUsual);
  EXPECT_EQ(admission.enter("a", false), Place::kUsual);
  // The client is at its limit, the server is not.
  EXPECT_EQ(admission.enter("a", false), Place::kReserve);
  EXPECT_FALSE(admission.is_full());
  EXPECT_EQ(admission.enter("b", false), Place::kUsual);
  EXPECT_TRUE(admission.is_full());
  // 17 places of the reserve are the administrator's. One client may have an eighth of the rest.
  EXPECT_EQ(admission.enter("a", false), Place::kReserve);
  EXPECT_EQ(admission.enter("a", false), Place::kNone);
  int found = 0;
  for (char client = 'c'; client <= 'z'; ++client) {
    while (admission.enter(std::string(1, client), false) == Place::kReserve) ++found;
  }
  EXPECT_EQ(found, 15);
  for (int i = 0; i < 17; ++i) EXPECT_EQ(admission.enter("root", true), Place::kAdmin);
  EXPECT_EQ(admission.enter("root", true), Place::kNone);
  EXPECT_EQ(admission.connections(), 3U + 34U);
}

TEST(Admission, CountsAnotherServerInAllAlone) {
  Admission admission({.connections = 3, .per_client = 1, .reserve = 0});
  EXPECT_EQ(admission.enter("a", false), Place::kUsual);
  EXPECT_EQ(admission.enter("a", false), Place::kNone);
  EXPECT_EQ(admission.to_server("a"), Place::kServer);
  EXPECT_EQ(admission.enter("a", false), Place::kUsual);
  EXPECT_EQ(admission.to_server("a"), Place::kServer);
  EXPECT_EQ(admission.enter("a", false), Place::kUsual);
  EXPECT_TRUE(admission.is_full());
  admission.leave("a", Place::kServer);
  EXPECT_FALSE(admission.is_full());
}

TEST(Admission, IsEmptyWhenAllHaveLeft) {
  constexpr unsigned kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  Admission admission({.connections = 20, .per_client = 5, .reserve = 16});
  std::vector<std::pair<std::string, Place>> all;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 && !all.empty()) {
      std::swap(all[random() % all.size()], all.back());
      admission.leave(all.back().first, all.back().second);
      all.pop_back();
      continue;
    }
    const std::string client(1, static_cast<char>('a' + random() % 8));
    Place place = admission.enter(client, client == "a");
    if (place == Place::kNone) continue;
    if (place == Place::kUsual && random() % 8 == 0) place = admission.to_server(client);
    all.emplace_back(client, place);
    ASSERT_EQ(admission.connections(), all.size());
    ASSERT_LE(all.size(), 36U);
  }
  for (const auto& [client, place] : all) admission.leave(client, place);
  EXPECT_EQ(admission.connections(), 0U);
}

TEST(Turns, AreTakenByTurns) {
  Turns turns(8);
  std::vector<std::string> begun;
  const auto wait = [&](const std::string& client, bool still_wants = true) {
    turns.wait(client, [&begun, client, still_wants] {
      begun.push_back(client);
      return still_wants;
    });
  };
  // Each client may have a quarter, even if there is room for more.
  for (int i = 0; i < 4; ++i) wait("a");
  EXPECT_THAT(begun, ElementsAre("a", "a"));
  for (const char* client : {"b", "b", "b", "c", "c", "d", "d", "e"}) wait(client);
  EXPECT_THAT(begun, ElementsAre("a", "a", "b", "b", "c", "c", "d", "d"));
  begun.clear();
  turns.end("c");
  EXPECT_THAT(begun, ElementsAre("e"));
  turns.end("a");
  EXPECT_THAT(begun, ElementsAre("e", "a"));
  // A client that no longer wants its turn passes it to the next.
  begun.clear();
  wait("c", false);
  wait("c");
  turns.end("d");
  EXPECT_THAT(begun, ElementsAre("c", "c"));
  begun.clear();
  for (const char* client : {"a", "a", "b", "b", "c", "d", "e", "c"}) turns.end(client);
  EXPECT_THAT(begun, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace harpe::net
