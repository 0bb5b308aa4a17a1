#include "harpe/training/client/notice_relay.h"

#include <gmock/gmock.h>

#include "harpe/training/job/notice_book.h"

namespace harpe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Ranks of one job, and its book in place of a server.
class Relays : public ::testing::Test {
 protected:
  void make(int ranks) {
    book_.emplace(ranks);
    said_.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      relays_.push_back(std::make_unique<NoticeRelay>(
          rank == 0,
          [this, rank](const std::string& text) {
            said_[static_cast<std::size_t>(rank)].push_back(text);
          },
          clock_));
    }
  }
  NoticeRelay& rank(int number) { return *relays_[static_cast<std::size_t>(number)]; }
  Seconds now() const { return clock_.now() - Instant{}; }

  /// As a server does.
  void ask(int number, bool last = false) {
    const auto notices = rank(number).due(last);
    if (!notices) return;
    NoticeResponse response{
        .taken = true, .ranks = static_cast<int>(relays_.size()), .notices = {}};
    for (const std::string& text : notices->texts) {
      response.taken = book_->add(number, text, now()) && response.taken;
    }
    if (number == 0) {
      response.notices = book_->ask(notices->heard, notices->last, now());
    } else {
      response.taken = response.taken && book_->is_asked(now());
    }
    rank(number).answered(response);
  }
  /// \param first  whether the first rank is there
  void pass(Seconds time, bool first = true, bool registered = true) {
    for (double second = 0; second < time.value; second += 0.5) {
      clock_.advance(Seconds{0.5});
      for (int i = first ? 0 : 1; i < static_cast<int>(relays_.size()); ++i) {
        if (registered) ask(i);
        rank(i).tick(registered);
      }
    }
  }

  ManualClock clock_;
  std::optional<NoticeBook> book_;
  std::vector<std::vector<std::string>> said_;
  std::vector<std::unique_ptr<NoticeRelay>> relays_;
};

TEST_F(Relays, TheFirstRankSaysOnceWhatSeveralTell) {
  make(8);
  pass(Seconds{2});
  for (const int number : {1, 2, 5}) rank(number).say("clocks cannot be set: no agent");
  pass(Seconds{60});
  EXPECT_THAT(said_[0], ElementsAre("ranks 1-2, 5: clocks cannot be set: no agent"));
  for (int i = 0; i < 8; ++i) rank(i).say("the agent sets clocks again");
  pass(Seconds{60});
  ASSERT_EQ(said_[0].size(), 2U);
  EXPECT_EQ(said_[0][1], "all 8 ranks: the agent sets clocks again");
  for (int i = 0; i < 8; ++i) rank(i).finish();
  for (std::size_t i = 1; i < 8; ++i) EXPECT_THAT(said_[i], IsEmpty());
  EXPECT_EQ(said_[0].size(), 2U);
}

TEST_F(Relays, OfAJobOfOneRankAllIsSaidAtOnce) {
  make(1);
  rank(0).say("clocks cannot be set");
  pass(Seconds{0.5});
  EXPECT_THAT(said_[0], ElementsAre("clocks cannot be set"));
}

TEST_F(Relays, WithoutAFirstRankThatAsksEachSaysItsOwn) {
  make(3);
  rank(1).say("no agent");
  rank(2).say("no agent");
  pass(Seconds{29}, false);
  EXPECT_THAT(said_[1], IsEmpty());
  pass(Seconds{2}, false);
  EXPECT_THAT(said_[1], ElementsAre("no agent"));
  EXPECT_THAT(said_[2], ElementsAre("no agent"));
}

TEST_F(Relays, WithoutAServerTheFirstRankSaysItSoonAndOthersLater) {
  make(2);
  rank(0).say("cannot register the job: no route");
  rank(1).say("cannot register the job: no route");
  pass(Seconds{4}, true, false);
  EXPECT_EQ(said_[0].size(), 1U);
  EXPECT_THAT(said_[1], IsEmpty());
  pass(Seconds{30}, true, false);
  EXPECT_EQ(said_[0].size(), 1U);
  EXPECT_EQ(said_[1].size(), 1U);
}

TEST_F(Relays, AServerThatKnowsNoNoticesLeavesThemToTheRank) {
  make(2);
  rank(1).say("no agent");
  ASSERT_TRUE(rank(1).due(false));
  rank(1).failed(true);
  rank(1).say("the agent sets clocks again");
  EXPECT_THAT(said_[1], ElementsAre("no agent", "the agent sets clocks again"));
}

TEST_F(Relays, NothingIsLostWhereTrainingEndsBeforeItWasSaid) {
  make(2);
  pass(Seconds{1});
  rank(0).say("of the first");
  rank(1).say("of another");
  ask(1);
  ask(0, true);
  EXPECT_THAT(said_[0], ElementsAre("rank 1: of another", "rank 0: of the first"));
  rank(0).say("after that");
  rank(0).finish();
  EXPECT_EQ(said_[0].back(), "after that");
  EXPECT_EQ(said_[0].size(), 3U);
}

TEST_F(Relays, AResponseThatWasLostIsNoLine) {
  make(2);
  rank(0).say("no agent");
  ASSERT_TRUE(rank(0).due(false));
  book_->add(0, "no agent", now());
  rank(0).failed(false);
  pass(Seconds{10});
  EXPECT_THAT(said_[0], ElementsAre("rank 0: no agent"));
}

}  // namespace
}  // namespace harpe
