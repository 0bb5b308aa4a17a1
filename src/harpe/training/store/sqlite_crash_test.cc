// Kills the writer of a SQLite file a hundred times at random moments. Afterwards the acknowledged
// data are complete, and an unacknowledged write is complete or absent.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <random>

#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

constexpr int kRounds = 100;
constexpr std::array kJobs{"a", "b", "c"};

/// Returns a text that follows from the revision, so that a mix of two revisions is detected.
std::string text_of(std::int64_t revision, const char* job) {
  std::mt19937 random(static_cast<unsigned>(revision));
  const std::size_t size = random() % 20'000;
  return std::to_string(revision) + job + std::string(size, static_cast<char>('a' + random() % 26));
}

StoreChanges changes_of(std::int64_t revision) {
  StoreChanges changes;
  for (const char* job : kJobs) {
    const std::string text = text_of(revision, job);
    changes.jobs.push_back({{job, text, revision, static_cast<double>(revision)}, "plans" + text});
    changes.events.push_back(
        {0, static_cast<double>(revision), job, "saved", std::to_string(revision)});
  }
  return changes;
}

/// Writes one revision after the other, and reports each as soon as it is acknowledged.
[[noreturn]] void write_until_killed(const std::string& url, int says) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto store = Store::open(url);
  if (!store.ok()) ::_exit(1);
  const auto first = (*store)->job(kJobs[0]);
  for (std::int64_t revision = first.ok() && *first ? (*first)->revision : 0;;) {
    const auto refused = (*store)->write(changes_of(++revision));
    if (!refused.ok() || !refused->empty()) ::_exit(1);
    if (::write(says, &revision, sizeof revision) != sizeof revision) ::_exit(1);
  }
}

/// Starts a writer and kills it after this time. Returns the last revision it acknowledged.
std::int64_t last_acknowledged(const std::string& url, long microseconds) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const pid_t writer = ::fork();
  if (writer == 0) write_until_killed(url, pipe_ends[1]);
  ::close(pipe_ends[1]);
  const timespec time{0, microseconds * 1000};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  ::kill(writer, SIGKILL);
  int status = 0;
  ::waitpid(writer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer gave up with status " << status;
  std::int64_t last = 0, revision = 0;
  while (::read(pipe_ends[0], &revision, sizeof revision) == sizeof revision) last = revision;
  ::close(pipe_ends[0]);
  return last;
}

TEST(SqliteCrash, LosesNothingThatWasAcknowledgedAndLeavesNothingHalfWritten) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const TestDirectory directory;
  const std::string url = "sqlite:" + (directory / "jobs.db").string();
  std::int64_t before = 0;
  for (int round = 0; round < kRounds; ++round) {
    const long wait = std::uniform_int_distribution<long>(0, 40'000)(random);
    const std::int64_t last = std::max(before, last_acknowledged(url, wait));
    const auto store = opened(url);
    ASSERT_NE(store, nullptr);
    const auto jobs = store->jobs();
    ASSERT_TRUE(jobs.ok()) << jobs.error().text();
    if (jobs->empty()) {
      ASSERT_EQ(last, 0) << "round " << round;
      continue;
    }
    ASSERT_EQ(jobs->size(), kJobs.size());
    const std::int64_t revision = jobs->front().revision;
    // One more revision may have been written than was reported.
    ASSERT_GE(revision, last) << "round " << round;
    ASSERT_LE(revision, last + 1) << "round " << round;
    for (const StoredJob& job : *jobs) {
      const std::string text = text_of(revision, job.id.c_str());
      ASSERT_EQ(job.revision, revision) << "round " << round;
      ASSERT_EQ(job.state, text) << "round " << round;
      ASSERT_EQ(*store->plans(job.id), "plans" + text) << "round " << round;
      const auto events = store->events(job.id, 0, 1'000'000);
      ASSERT_TRUE(events.ok());
      ASSERT_EQ(events->size(), static_cast<std::size_t>(revision)) << "round " << round;
      ASSERT_EQ(events->back().text, std::to_string(revision)) << "round " << round;
    }
    before = revision;
  }
  std::printf("%lld revisions written in %d lives\n", static_cast<long long>(before), kRounds);
  EXPECT_GT(before, kRounds / 10);
}

}  // namespace
}  // namespace harpe::training
