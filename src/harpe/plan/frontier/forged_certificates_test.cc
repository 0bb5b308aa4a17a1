// Forgeries of small cases, by seed: claims that the verifier accepts are true.
// forged_certificate_fuzz.cc searches further.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "harpe/plan/frontier/forged_case_testing.h"
#include "harpe/plan/frontier/random_pipelines_testing.h"

namespace harpe::plan {
namespace {

std::vector<std::uint8_t> random_bytes(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(512);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TEST(ForgedCertificates, NoneProvesMoreThanTheLeastEnergyOfAllAssignments) {
  ForgingCounts counts;
  const unsigned cases = seeds(1800);
  for (unsigned seed = 0; seed < cases; ++seed) {
    const std::string lie = find_accepted_forgery(random_bytes(seed), counts);
    ASSERT_EQ(lie, "") << "seed " << seed;
  }
  // Refused forgeries show nothing, so enough of every kind must be compared with the oracle.
  const int least = static_cast<int>(cases) / 60;
  EXPECT_GT(counts.compared, 60 * least) << counts.text();
  EXPECT_GT(counts.near_optimum, 25 * least) << counts.text();
  for (const int of_kind :
       {counts.by_solver, counts.late, counts.with_loops, counts.with_longest, counts.blocking,
        counts.overlapped, counts.fused, counts.chunks, counts.fixed_times, counts.waiting})
    EXPECT_GT(of_kind, 4 * least) << counts.text();
}

}  // namespace
}  // namespace harpe::plan
