#include <gtest/gtest.h>

#include "harpe/training/server/hosted.h"

namespace harpe::training {
namespace {

TEST(Revisions, RiseWithEveryContentThatIsWritten) {
  Revisions revisions;
  EXPECT_FALSE(revisions.in_store());
  std::int64_t before = revisions.newest();
  for (int i = 0; i < 3; ++i) {
    revisions.change();
    const std::int64_t revision = revisions.write();
    EXPECT_GT(revision, before);
    revisions.failed(revision);  // it may be stored nevertheless
    EXPECT_TRUE(revisions.differs());
    before = revision;
  }
  const std::int64_t revision = revisions.write();
  EXPECT_FALSE(revisions.is_stored());
  revisions.written(revision);
  EXPECT_TRUE(revisions.is_stored());
  EXPECT_EQ(revisions.stored(), revision);
}

TEST(Revisions, GoOnBehindWhatWasStored) {
  Revisions revisions = Revisions::of_stored(7);
  EXPECT_TRUE(revisions.is_stored());
  revisions.change();
  EXPECT_FALSE(revisions.is_stored());
  EXPECT_GT(revisions.write(), 7);
}

TEST(Revisions, AreNotStoredWhereTheJobHasChangedSinceItWasWritten) {
  Revisions revisions;
  revisions.change();
  const std::int64_t revision = revisions.write();
  revisions.change();
  revisions.written(revision);
  EXPECT_TRUE(revisions.in_store());
  EXPECT_FALSE(revisions.is_stored());
  EXPECT_TRUE(revisions.differs());
}

TEST(RevisionsDeathTest, EndTheProgramRatherThanAcknowledgeWhatWasNotWritten) {
  Revisions revisions;
  revisions.change();
  EXPECT_DEATH(revisions.written(revisions.newest()), "no revision that was not written");
  EXPECT_DEATH(revisions.written(0), "no revision that was not written");
  const std::int64_t revision = revisions.write();
  revisions.failed(revision);
  EXPECT_DEATH(revisions.written(revision), "no revision that was not written");
  EXPECT_DEATH(revisions.failed(revision), "was being written");
}

TEST(RevisionsDeathTest, EndTheProgramRatherThanGoBack) {
  Revisions revisions = Revisions::of_stored(7);
  EXPECT_DEATH(revisions.written(6), "no revision that was not written");
  revisions.change();
  const std::int64_t first = revisions.write();
  revisions.written(first);
  revisions.change();
  revisions.written(revisions.write());
  EXPECT_DEATH(revisions.written(first), "no revision that was not written");
}

TEST(RevisionsDeathTest, EndTheProgramRatherThanWriteTheSameAgain) {
  Revisions revisions = Revisions::of_stored(7);
  EXPECT_DEATH((void)revisions.write(), "a revision has one content");
  revisions.change();
  (void)revisions.write();
  EXPECT_DEATH((void)revisions.write(), "a revision has one content");
}

}  // namespace
}  // namespace harpe::training
