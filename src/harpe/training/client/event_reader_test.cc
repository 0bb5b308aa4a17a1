#include "harpe/training/client/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Events = std::vector<std::pair<std::string, std::string>>;

Events read(const std::vector<std::string>& pieces) {
  Events events;
  EventReader stream;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(stream
                    .add(piece,
                         [&](const EventReader::Event& event) {
                           events.emplace_back(event.name, event.data);
                         })
                    .ok());
  }
  return events;
}

TEST(EventReader, ReadsNamesAndDataUnderAnyLineEnd) {
  EXPECT_THAT(read({"event: assignments\ndata: {\"a\": 1}\n\n"}),
              ElementsAre(Pair("assignments", "{\"a\": 1}")));
  EXPECT_THAT(read({"data:one\r\ndata: two\r\n\r\n"}), ElementsAre(Pair("message", "one\ntwo")));
  EXPECT_THAT(read({"event: a\rdata: 1\r\rdata: 2\r\r"}),
              ElementsAre(Pair("a", "1"), Pair("message", "2")));
  EXPECT_THAT(read({"\xef\xbb\xbf"
                    "data: first\n\n"}),
              ElementsAre(Pair("message", "first")));
}

TEST(EventReader, CommentsAndEventsWithoutDataAreNoEvents) {
  EXPECT_THAT(read({": hb\n\nevent: empty\n\nid: 3\nretry: 5\nunknown\n\n"}), IsEmpty());
  EXPECT_THAT(read({"event: x\n\ndata: y\n\n"}), ElementsAre(Pair("message", "y")))
      << "a name holds for one event";
  EXPECT_THAT(read({"data\n\n"}), ElementsAre(Pair("message", "")));
  EXPECT_THAT(read({"data: begun\n"}), IsEmpty()) << "not ended yet";
}

TEST(EventReader, PiecesMakeNoDifference) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string whole =
      "\xef\xbb\xbf: hello\r\nevent: assignments\r\ndata: {}\r\n\r\nevent: phase\ndata: a\ndata: "
      "b\n\n"
      "data: c\r\rdata: d\n\n";
  const Events expected = read({whole});
  ASSERT_EQ(expected.size(), 4);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t size = std::uniform_int_distribution<std::size_t>(1, 9)(random);
      pieces.push_back(whole.substr(at, size));
      at += size;
    }
    EXPECT_EQ(read(pieces), expected);
  }
}

TEST(EventReader, AnEndlessEventIsRefused) {
  EventReader stream;
  const std::string piece = "data: " + std::string(1 << 20, 'x') + "\n";
  bool failed = false;
  for (int i = 0; i < 20 && !failed; ++i) {
    failed = !stream.add(piece, [](const EventReader::Event&) { FAIL(); }).ok();
  }
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace harpe::training
