#include "harpe/training/job/notice_book.h"

#include <gmock/gmock.h>

#include <random>

namespace harpe {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kText = "clocks cannot be set: no agent listens";

TEST(NoticeBook, EqualTextsOfRanksAreOneLine) {
  NoticeBook book(8);
  EXPECT_FALSE(book.is_asked(Seconds{0}));
  for (const int rank : {5, 1, 2}) EXPECT_TRUE(book.add(rank, kText, Seconds{0.1 * rank}));
  EXPECT_THAT(book.ask(0, false, Seconds{1}), IsEmpty()) << "others may come";
  const auto notices = book.ask(0, false, Seconds{3});
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0].line(8), "ranks 1-2, 5: " + std::string(kText));
  EXPECT_TRUE(book.is_asked(Seconds{3}));
  EXPECT_FALSE(book.is_asked(Seconds{34}));
}

TEST(NoticeBook, WhatAllRanksTellNeedsNoWaitingAndNoList) {
  NoticeBook book(3);
  for (int rank = 0; rank < 3; ++rank) book.add(rank, kText, Seconds{1});
  const auto notices = book.ask(0, false, Seconds{1});
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0].line(3), "all 3 ranks: " + std::string(kText));

  NoticeBook alone(1);
  alone.add(0, kText, Seconds{1});
  EXPECT_EQ(alone.ask(0, false, Seconds{1}).front().line(1), kText);
}

TEST(NoticeBook, IsGivenAgainUntilItWasHeardAndNotAfterThat) {
  NoticeBook book(4);
  book.add(1, kText, Seconds{0});
  const auto first = book.ask(0, false, Seconds{5});
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(book.ask(0, false, Seconds{6}), first) << "the response was lost";
  EXPECT_THAT(book.ask(first[0].number, false, Seconds{7}), IsEmpty());
  book.add(1, kText, Seconds{8});
  EXPECT_THAT(book.ask(first[0].number, false, Seconds{20}), IsEmpty()) << "a retry of the rank";
  book.add(3, kText, Seconds{21});
  const auto more = book.ask(first[0].number, true, Seconds{21});
  ASSERT_THAT(more, SizeIs(1)) << "the first rank ends: it is not waited for others";
  EXPECT_EQ(more[0].ranks, "3");
  EXPECT_GT(more[0].number, first[0].number);
  book.add(1, kText, Seconds{500});
  EXPECT_THAT(book.ask(more[0].number, false, Seconds{510}), SizeIs(1)) << "it is so again";
  EXPECT_EQ(book.all().front().ranks, "1, 3");
}

TEST(NoticeBook, ManyTextsAreRefusedSoThatRanksSayThemThemselves) {
  NoticeBook book(2);
  for (std::size_t i = 0; i < NoticeBook::kMost; ++i) {
    EXPECT_TRUE(book.add(1, "text " + std::to_string(i), Seconds{0}));
  }
  EXPECT_FALSE(book.add(1, "one more", Seconds{0}));
  EXPECT_THAT(book.ask(0, true, Seconds{0}), SizeIs(NoticeBook::kMost));
  EXPECT_TRUE(book.add(1, "one more", Seconds{0})) << "in place of one that was said";
  EXPECT_EQ(book.all().back().text, "one more");
}

TEST(NoticeBook, EveryTextOfEveryRankIsSaidOnceWhateverTheOrder) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    NoticeBook book(16);
    std::set<std::pair<std::string, int>> told;
    int said = 0;
    std::uint64_t heard = 0;
    for (int step = 0; step < 100; ++step) {
      const Seconds now{0.5 * step};
      if (random() % 2 == 0) {
        const int rank = static_cast<int>(random() % 16);
        const std::string text = "text " + std::to_string(random() % 4);
        book.add(rank, text, now);
        told.emplace(text, rank);
      }
      if (random() % 4 == 0) {
        for (const JobNotice& one : book.ask(heard, step == 99, now)) {
          said += one.count;
          heard = one.number;
        }
      }
    }
    for (const JobNotice& one : book.ask(heard, true, Seconds{50})) said += one.count;
    EXPECT_EQ(static_cast<std::size_t>(said), told.size());
  }
}

}  // namespace
}  // namespace harpe
