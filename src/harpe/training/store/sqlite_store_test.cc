// Faults of a SQLite file, and the behaviour of a store over it.

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "harpe/base/file.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Another program that uses a SQLite file.
class OtherProgram {
 public:
  explicit OtherProgram(const fs::path& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &handle_), SQLITE_OK);
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;
  ~OtherProgram() { sqlite3_close(handle_); }
  void run(const char* statement) {
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(handle_, statement, nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_free(message);
  }

 private:
  sqlite3* handle_ = nullptr;
};

class SqliteFile : public ::testing::Test {
 protected:
  std::string url() const { return "sqlite:" + path_.string(); }
  std::string content() const { return *read_file(path_); }

  TestDirectory directory_;
  fs::path path_ = directory_ / "jobs.db";
};

TEST_F(SqliteFile, IsForItsUserAlone) {
  const auto store = opened(url());
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  for (const auto& file : fs::directory_iterator(directory_.path())) {
    EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << file.path();
  }
}

TEST_F(SqliteFile, HasOneServerAtATimeAndSaysWhichOne) {
  auto first = opened(url(), {.name = "harpe serve at http://node1:8080"});
  EXPECT_OK(save(*first, {"a", "state", 1, 1}));
  const auto second = Store::open(url());
  EXPECT_THAT(error_of(second),
              AllOf(HasSubstr("conflict: "), HasSubstr("process " + std::to_string(::getpid())),
                    HasSubstr("harpe serve at http://node1:8080"), HasSubstr("PostgreSQL")));
  fs::create_symlink(path_, directory_ / "link.db");
  EXPECT_THAT(error_of(Store::open("sqlite:" + (directory_ / "link.db").string())),
              HasSubstr("conflict: "));
  // The refused store must not have freed the locks of the first one.
  EXPECT_OK(save(*first, {"a", "state", 2, 1}));
  first.reset();
  EXPECT_TRUE(Store::open(url()).ok());
}

TEST_F(SqliteFile, IsFreeAgainWhenItsServerIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t server = ::fork();
  if (server == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto store = Store::open(url());
    const char word = store.ok() && save(**store, {"a", "state", 1, 1}).ok() ? 'y' : 'n';
    if (::write(ready[1], &word, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  EXPECT_EQ(word, 'y');
  EXPECT_THAT(error_of(Store::open(url())), HasSubstr("process " + std::to_string(server)));
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  const auto store = opened(url());
  EXPECT_EQ((*store->job("a"))->state, "state");
  ::close(ready[0]), ::close(ready[1]);
}

TEST_F(SqliteFile, OfAnotherProgramIsRefusedAndLeftAsItIs) {
  OtherProgram(path_).run("CREATE TABLE bookmarks (url TEXT)");
  const std::string before = content();
  EXPECT_THAT(error_of(Store::open(url())), HasSubstr("database of another program"));
  EXPECT_EQ(content(), before);
}

TEST_F(SqliteFile, ThatIsNoDatabaseIsRefusedAndLeftAsItIs) {
  const std::string text(5000, 'x');
  ASSERT_TRUE(write_file(path_, text).ok());
  EXPECT_THAT(error_of(Store::open(url())),
              AllOf(HasSubstr("io: " + path_.string()), HasSubstr("not a SQLite database")));
  EXPECT_EQ(content(), text);
}

TEST_F(SqliteFile, ThatIsDamagedIsToldClearlyOrGivesWhatWasSaved) {
  {
    const auto store = opened(url());
    for (int i = 0; i < 40; ++i) {
      const std::string id = "job " + std::to_string(i);
      EXPECT_OK(save(*store, {id, std::string(3000, 's'), 1, 1}, std::string(3000, 'p')));
      EXPECT_OK(append(*store, {0, 1, id, "kind", std::string(300, 't')}));
    }
  }
  const std::string whole = content();
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int told = 0;
  for (int round = 0; round < 40; ++round) {
    std::string damaged = whole;
    if (round % 4 == 0) {
      damaged.resize(std::uniform_int_distribution<std::size_t>(100, whole.size() - 1)(random));
    } else {
      // A page that the disk returned with other content.
      const std::size_t pages = whole.size() / 4096;
      const std::size_t page = std::uniform_int_distribution<std::size_t>(0, pages - 1)(random);
      for (std::size_t i = 0; i < 4096; ++i) damaged[page * 4096 + i] = static_cast<char>(random());
    }
    ASSERT_TRUE(write_file(path_, damaged).ok());
    fs::remove(path_.string() + "-wal");
    const auto store = Store::open(url());
    if (!store.ok()) {
      ++told;
      EXPECT_THAT(error_of(store),
                  AllOf(HasSubstr("io: " + path_.string()), HasSubstr("restore a backup")));
      continue;
    }
    // Damage to a page that contains only text is not detected. The jobs are complete.
    EXPECT_THAT(*(*store)->jobs(), SizeIs(40));
  }
  EXPECT_GT(told, 20);
}

TEST_F(SqliteFile, WithoutADirectoryOrWithOneForAFileSaysSo) {
  EXPECT_THAT(error_of(Store::open("sqlite:" + (directory_ / "no/jobs.db").string())),
              HasSubstr("its directory does not exist"));
  fs::create_directory(path_);
  EXPECT_FALSE(Store::open(url()).ok());
}

TEST_F(SqliteFile, ThatItsUserMayNotWriteSaysSo) {
  opened(url()).reset();
  fs::permissions(path_, fs::perms::owner_read | fs::perms::others_read | fs::perms::group_read);
  fs::permissions(directory_.path(), fs::perms(0555));
  const pid_t child = ::fork();  // as a user to whom permissions apply
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const auto store = Store::open(url());
    ::_exit(!store.ok() && store.error().code == ErrorCode::kNoPermission ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  fs::permissions(directory_.path(), fs::perms(0755));
}

TEST_F(SqliteFile, HeldUpByAnotherProgramIsUnavailableForThatLong) {
  const auto store = opened(url(), {.timeout = 0.05_s});
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  {
    OtherProgram other(path_);
    other.run("BEGIN IMMEDIATE");
    EXPECT_THAT(error_of(save(*store, {"a", "state", 2, 1})), HasSubstr("unavailable: "));
    EXPECT_EQ((*store->job("a"))->revision, 1);  // reading continues
    other.run("ROLLBACK");
  }
  EXPECT_OK(save(*store, {"a", "state", 2, 1}));
}

/// Limits the size of files for this process, as a disk with little space does.
class LittleSpace {
 public:
  explicit LittleSpace(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit little{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
  }
  LittleSpace(const LittleSpace&) = delete;
  LittleSpace& operator=(const LittleSpace&) = delete;
  ~LittleSpace() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(SqliteFile, OnAFullDiskSaysSoKeepsWhatItHasAndGoesOnWhenThereIsSpace) {
  const auto store = opened(url());
  EXPECT_OK(save(*store, {"first", "state", 1, 1}, "plans"));
  const auto all_of = [](int revision) {
    StoreChanges changes;
    for (const char* id : {"first", "second"}) {
      changes.jobs.push_back(
          {{id, std::string(300'000, 's'), revision, 1}, std::string(300'000, 'p')});
      changes.events.push_back({0, 1.0 * revision, id, "saved", "text"});
    }
    return changes;
  };
  for (const rlim_t space : {60'000, 300'000, 700'000, 1'000'000}) {
    Result<std::vector<std::string>> written = std::vector<std::string>();
    {
      const LittleSpace little(space);
      written = store->write(all_of(2));
      EXPECT_EQ(store->jobs()->size(), 1U);
    }
    ASSERT_FALSE(written.ok());
    EXPECT_THAT(error_of(written),
                AllOf(HasSubstr("io: " + path_.string()), HasSubstr("no space is left")));
    EXPECT_EQ(**store->job("first"), (StoredJob{"first", "state", 1, 1}));
    EXPECT_EQ(*store->plans("first"), "plans");
    EXPECT_EQ(*store->job("second"), std::nullopt);
    EXPECT_THAT(*store->events("first", 0, 10), IsEmpty());
  }
  const auto written = store->write(all_of(3));
  EXPECT_TRUE(written.ok()) << error_of(written);
  EXPECT_EQ((*store->job("second"))->revision, 3);
}

TEST_F(SqliteFile, EndsTheProgramRatherThanChangeAJobByAClaimItNeverGave) {
  const auto store = opened(url());
  const std::int64_t epoch = (*store->claim("a"))->epoch;
  StoreChanges changes;
  changes.jobs.push_back({.job = {"a", "state", 1, 1}, .plans = {}});
  changes.epochs["a"] = epoch + 1;
  EXPECT_DEATH((void)store->write(changes), "by a claim that its store gave");
}

TEST_F(SqliteFile, ThatDoesNotSayHowOftenItWasOpenedIsDamaged) {
  (void)opened(url());
  OtherProgram(path_).run("DELETE FROM server");
  const auto store = Store::open(url());
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.error().text(), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace harpe::training
