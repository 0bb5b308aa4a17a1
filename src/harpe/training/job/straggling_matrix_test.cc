// Jobs with stragglers of any kind meet their objective. `straggling_matrix_bench` runs all cases.

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "harpe/training/job/straggling_matrix_testing.h"

namespace harpe::training {
namespace {

constexpr double kAllowed = 1.005;

class Matrix : public testing::TestWithParam<StragglingCase> {};

std::vector<StragglingCase> cases() {
  std::vector<StragglingCase> all;
  for (const Straggling straggling : kAllStraggling) {
    if (HARPE_UNDER_SANITIZERS) {
      all.push_back({.data = 2, .stages = 2, .error = {straggling, 1.6}});
      continue;
    }
    for (const double factor : {1.05, 1.15, 1.3, 1.6}) {
      all.push_back({.data = 2, .stages = 2, .error = {straggling, factor}});
      all.push_back({.data = 1, .stages = 4, .error = {straggling, factor}});
    }
    all.push_back({.data = 3, .stages = 4, .error = {straggling, 1.3}, .declared = true});
    all.push_back({.data = 3, .stages = 2, .error = {straggling, 1.05}});
    for (const int data : {2, 4})
      all.push_back({.data = data, .stages = 1, .error = {straggling, 1.3}});
  }
  return all;
}

TEST_P(Matrix, NoJobIsSlowerThanItsObjective) {
  StragglingRun played(GetParam());
  const StragglingOutcome outcome = played.run();
  EXPECT_LE(outcome.time, kAllowed);
  EXPECT_LE(outcome.healed_time, kAllowed);
  EXPECT_EQ(outcome.profiled, 0) << "what a straggler costs is known without measuring all again";
}

INSTANTIATE_TEST_SUITE_P(Cases, Matrix, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<StragglingCase>& one) {
                           std::string name;
                           for (const char c : one.param.text())
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace harpe::training
