// Memory of jobs on their server.

#include "harpe/training/job/job_size.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>

#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/job/job.h"

namespace harpe::training {
namespace {

constexpr Seconds kSizeNow{1.8e9};
constexpr std::size_t kMebi = std::size_t{1} << 20;

JobSpec declared_job(const JobShape& shape) {
  JobSpec spec;
  spec.shape = shape;
  spec.schedule = *one_f_one_b({.stages = shape.stages, .micro_batches = 1});
  spec.blocking_power = Watts{80};
  return spec;
}

RankRegistration sized_rank(RankCoordinates place) {
  return {.coordinates = place,
          .session = "s",
          .run = "r",
          .gpu = "g",
          .clocks = {Megahertz{1400}, Megahertz{1000}}};
}

std::size_t bytes_allocated() {
  const auto all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

TEST(JobSize, RanksThatAreDeclaredTakeNoMoreThanIsCounted) {
  if (HARPE_UNDER_SANITIZERS) GTEST_SKIP() << "sanitizers have an allocator of their own";
  for (const JobShape& shape : {JobShape{.tensor = 262'144}, JobShape{.data = 262'144},
                                JobShape{.data = 64, .stages = 4096}, JobShape{}}) {
    const JobSpec spec = declared_job(shape);
    const std::size_t before = bytes_allocated();
    const auto job = Job::create(spec, kSizeNow);
    ASSERT_TRUE(job.ok());
    EXPECT_LE(bytes_allocated() - before, memory_of(spec)) << shape.data << " " << shape.stages;
  }
}

TEST(JobSize, RanksTakeMemoryWhenTheyRegister) {
  const JobSpec spec = declared_job({.data = 2, .tensor = 131'072});
  EXPECT_LT(memory_of(spec), 6 * kMebi);
  Job job = *Job::create(spec, kSizeNow);
  EXPECT_EQ(job.rank_memory(), 0U);
  for (const int data : {0, 1}) {
    for (int tensor = 0; tensor < spec.shape.tensor; ++tensor) {
      const RankRegistration rank = sized_rank({.data = data, .tensor = tensor});
      const std::size_t before = job.rank_memory();
      const std::size_t more = job.memory_to_register(rank, kSizeNow);
      ASSERT_TRUE(job.register_rank(rank, kSizeNow).ok());
      ASSERT_EQ(job.rank_memory(), before + more);
      ASSERT_EQ(job.memory_to_register(rank, kSizeNow), 0U);  // the same rank again
    }
  }
  EXPECT_GT(job.rank_memory(), 40 * kMebi);
}

TEST(JobSize, RanksOfAnotherStartCountUntilItTakesOver) {
  Job job = *Job::create(declared_job({.tensor = 1000}), kSizeNow);
  for (int tensor = 0; tensor < 1000; ++tensor)
    ASSERT_TRUE(job.register_rank(sized_rank({.tensor = tensor}), kSizeNow).ok());
  const std::size_t before = job.rank_memory();
  RankRegistration other = sized_rank({});
  other.run = other.session = "another";
  EXPECT_EQ(job.memory_to_register(other, kSizeNow), memory_of_ranks(256, 2));
  ASSERT_TRUE(job.register_rank(other, kSizeNow).ok());
  EXPECT_EQ(job.rank_memory(), before + memory_of_ranks(256, 2));
}

TEST(JobSize, RegistrationsThatAreRefusedTakeNothing) {
  Job job = *Job::create(declared_job({.tensor = 1000}), kSizeNow);
  RankRegistration rank = sized_rank({.tensor = 1000});
  EXPECT_EQ(job.memory_to_register(rank, kSizeNow), 0U);
  EXPECT_FALSE(job.register_rank(rank, kSizeNow).ok());
  rank = sized_rank({});
  rank.clocks.clear();
  EXPECT_FALSE(job.register_rank(rank, kSizeNow).ok());
  EXPECT_EQ(job.rank_memory(), 0U);
}

}  // namespace
}  // namespace harpe::training
