#include "harpe/training/server/carbon_feeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/file.h"
#include "harpe/base/mutex.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A loop whose posted work runs when the test requests it.
class QueuedLoop final : public Loop {
 public:
  void post(std::function<void()> work) override {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  void after(Seconds /*delay*/, std::function<void()> work) override { post(std::move(work)); }
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        const MutexLock lock(mutex_);
        if (waiting_.empty()) return;
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      work();
    }
  }

 private:
  Mutex mutex_;
  std::deque<std::function<void()>> waiting_ HARPE_GUARDED_BY(mutex_);
};

/// The time and the file system of feeds. Threads of feeds may outlast a test.
class World {
 public:
  std::int64_t now() const {
    const MutexLock lock(mutex_);
    return now_;
  }
  void advance(std::int64_t seconds) {
    const MutexLock lock(mutex_);
    now_ += seconds;
  }
  /// Hangs reads or ends the hang, as a mount does whose server disappears and returns.
  void hang(bool hangs) {
    const MutexLock lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  Result<std::string> read(const std::filesystem::path& path) {
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() HARPE_REQUIRES(mutex_) { return !hangs_; });
    }
    return read_regular_file(path);
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::int64_t now_ HARPE_GUARDED_BY(mutex_) = carbon::parse_utc("2026-01-15T10:00Z")->since_1970;
  bool hangs_ HARPE_GUARDED_BY(mutex_) = false;
};

class Feeds : public ::testing::Test {
 protected:
  ~Feeds() override { world_->hang(false); }

  /// Writes intervals of one second each, up to 1000 s ahead.
  void write(double grams) {
    std::string text = "time,grams\n";
    for (int i = -10; i < 1000; ++i) {
      text += carbon::utc_text(carbon::UtcTime{begin_ + i}) + "," + std::to_string(grams) + "\n";
    }
    ASSERT_TRUE(write_file(path_, text).ok());
  }

  Status open(Seconds longest_start = Seconds{60}) {
    const auto world = world_;
    auto opened = CarbonFeeds::open(
        loop_,
        {.sources = {"file:" + path_.string() +
                     "?time=time&value=grams&unit=g/kWh&kind=direct&zone=X"},
         .now = [world] { return carbon::UtcTime{world->now()}; },
         .wall = [world] { return Seconds{static_cast<double>(world->now())}; },
         .read = [world](const std::filesystem::path& path) { return world->read(path); },
         .longest_start = longest_start,
         .longest_read = Seconds{0.01}},
        [this](const std::string& line) { log_.push_back(line); });
    if (!opened.ok()) return std::move(opened).error();
    feeds_ = *std::move(opened);
    feeds_->start([](const std::string&) {});
    return ok_status();
  }

  const OfferedSource& source() {
    loop_.run();
    return feeds_->offered().front();
  }
  double grams() { return source().reading->current->intensity.grams_per_kwh; }
  /// Advances time second by second until `holds`. Returns false if that takes too long.
  template <class Condition>
  bool comes(const Condition& holds) {
    return eventually([&] {
      world_->advance(1);
      return holds();
    });
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "grid.csv";
  const std::shared_ptr<World> world_ = std::make_shared<World>();
  const std::int64_t begin_ = world_->now();
  QueuedLoop loop_;
  std::vector<std::string> log_;
  std::unique_ptr<CarbonFeeds> feeds_;
};

TEST_F(Feeds, OfAPipeInPlaceOfTheFileKeepWhatWasReadAndSayHowOldItIs) {
  write(300);
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(eventually([&] { return source().reading != nullptr; }));
  for (const bool is_pipe : {true, false}) {
    SCOPED_TRACE(is_pipe);
    std::filesystem::remove(path_);
    if (is_pipe) {
      ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    }
    ASSERT_TRUE(comes([&] { return !source().reading->trouble.empty(); }));
    EXPECT_THAT(source().reading->trouble,
                HasSubstr(is_pipe ? "is not a regular file" : "No such file"));
    const Seconds read_at = source().read_at;
    world_->advance(100);
    ASSERT_TRUE(comes([&] { return source().asked_at > read_at + Seconds{100}; }));
    EXPECT_EQ(source().read_at, read_at);
    EXPECT_FALSE(source().reading->trouble.empty());
    EXPECT_EQ(source().reading->current->ladder, carbon::LadderStep::kLastGood);
    EXPECT_EQ(source().reading->forecast->issued_at.since_1970,
              static_cast<std::int64_t>(read_at.value));
    if (is_pipe) std::filesystem::remove(path_);
    write(is_pipe ? 200 : 100);
    ASSERT_TRUE(comes([&] { return source().reading->trouble.empty(); }));
    EXPECT_GT(source().read_at, read_at + Seconds{100});
    EXPECT_EQ(grams(), is_pipe ? 200 : 100);
  }
}

TEST_F(Feeds, OfAFileThatDoesNotChangeAreUpToDate) {
  write(300);
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(eventually([&] { return source().reading != nullptr; }));
  world_->advance(100);
  // Between two looks at the file, the value may be a moment old.
  ASSERT_TRUE(comes([&] {
    return source().read_at.value >= double(begin_ + 100) &&
           source().reading->current->ladder == carbon::LadderStep::kFresh;
  }));
  EXPECT_THAT(log_, ElementsAre());
}

TEST_F(Feeds, ThatHangAreSaidToAndDelayNothing) {
  write(300);
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(eventually([&] { return source().reading != nullptr; }));
  world_->hang(true);
  write(200);
  ASSERT_TRUE(comes([&] {
    feeds_->tick();
    return !source().hangs.empty();
  }));
  EXPECT_THAT(source().hangs, HasSubstr("has not responded since"));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("has not responded since")));
  const Seconds read_at = source().read_at;
  world_->advance(100);
  feeds_->tick();
  EXPECT_EQ(source().read_at, read_at);
  EXPECT_EQ(grams(), 300);
  world_->hang(false);
  ASSERT_TRUE(comes([&] { return source().hangs.empty(); }));
  EXPECT_EQ(grams(), 200);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("has not responded"), HasSubstr("is available again")));
}

TEST_F(Feeds, ThatHangFromTheBeginningAreAnErrorOfTheStart) {
  write(300);
  world_->hang(true);
  const Status opened = open(Seconds{0.01});
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().text(),
              HasSubstr("grid.csv?time=time&value=grams&unit=g/kWh&kind=direct&zone=X could not be "
                        "opened within 0.01 s"));
}

TEST_F(Feeds, OfAPipeAreAnErrorOfTheStart) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const Status opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().text(), HasSubstr("grid.csv: is not a regular file"));
}

}  // namespace
}  // namespace harpe::training
