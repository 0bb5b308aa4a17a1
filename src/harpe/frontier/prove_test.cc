// The bound without options that are too long, and the certificate that proves it.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "harpe/frontier/certificate.h"
#include "harpe/frontier/frontier.h"
#include "harpe/frontier/verify.h"
#include "harpe/profile/synth.h"

namespace harpe {
namespace {

Frontier frontier_of(std::string_view gpu, double imbalance) {
  return characterize(
             one_f_one_b({.stages = 4, .micro_batches = 8}),
             synthesize({.gpu = gpu, .stages = 4, .imbalance = imbalance, .seed = 3}).value(),
             {.blocking_power = 90_W})
      .value();
}

TEST(TightBound, IsProvenByTheCertificateAndMuchHigherForTheFastestPlan) {
  double gap = 0, tight_gap = 0;
  for (const char* gpu : {"a40", "h100-sxm", "a100-sxm"}) {
    for (const double imbalance : {1.0, 1.2}) {
      const Frontier frontier = frontier_of(gpu, imbalance);
      const Plan plan = frontier.fastest_plan().value();
      const Joules tight = frontier.tight_lower_bound(plan.iteration_time);
      EXPECT_GE(tight, frontier.lower_bound(plan.iteration_time));
      EXPECT_LE(tight, plan.iteration_energy);
      const Certificate certificate = frontier.certificate(plan.iteration_time).value();
      EXPECT_FALSE(certificate.longest.empty());
      const Verification found = verify_plan(plan, frontier.profile(), &certificate);
      EXPECT_TRUE(found.diagnostics.empty()) << found.diagnostics.front();
      ASSERT_TRUE(found.proven_bound);
      EXPECT_NEAR(found.proven_bound->value, tight.value, 1e-9 * tight.value);
      gap += plan.iteration_energy / frontier.lower_bound(plan.iteration_time) - 1;
      tight_gap += plan.iteration_energy / tight - 1;
    }
  }
  EXPECT_LT(tight_gap, 0.7 * gap);
}

TEST(TightBound, IsThatOfTheRelaxationWhereThereIsTime) {
  const Frontier frontier = frontier_of("h100-sxm", 1.1);
  const Seconds late = frontier.min_time() * 1.05;
  EXPECT_EQ(frontier.tight_lower_bound(late), frontier.lower_bound(late));
  EXPECT_TRUE(frontier.certificate(late)->longest.empty());
}

TEST(TightBound, LeavesOutNothingThatFits) {
  const Frontier frontier = frontier_of("h100-sxm", 1.0);
  const Plan plan = frontier.fastest_plan().value();
  const Certificate honest = frontier.certificate(plan.iteration_time).value();
  ASSERT_FALSE(honest.longest.empty());
  Certificate greedy = honest;
  for (std::int64_t& longest : greedy.longest) longest -= longest / 10;
  const Verification found = verify_plan(plan, frontier.profile(), &greedy);
  EXPECT_TRUE(std::ranges::any_of(found.diagnostics, [](const std::string& text) {
    return text.find("leaves out") != std::string::npos;
  }));
  Certificate nothing = honest;
  nothing.longest.assign(honest.longest.size(), 0);
  EXPECT_FALSE(verify_plan(plan, frontier.profile(), &nothing).diagnostics.empty());
  Certificate short_list = honest;
  short_list.longest.pop_back();
  EXPECT_FALSE(verify_plan(plan, frontier.profile(), &short_list).diagnostics.empty());
}

TEST(TightBound, IsReadBackAsItWasWritten) {
  const Frontier frontier = frontier_of("a40", 1.0);
  const Certificate written = frontier.certificate(frontier.min_time()).value();
  ASSERT_FALSE(written.longest.empty());
  const std::string text = certificate_json(written);
  const Certificate read = parse_certificate_json(text, "c.json").value();
  EXPECT_EQ(read.longest, written.longest);
  EXPECT_EQ(certificate_json(read), text);
}

}  // namespace
}  // namespace harpe
