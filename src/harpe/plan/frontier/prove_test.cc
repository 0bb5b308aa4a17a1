// The bound above the bound of the relaxation, and the certificate that proves it.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
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
  bool some_are_too_long = false;
  for (const char* gpu : {"a40", "h100-sxm", "a100-sxm"}) {
    for (const double imbalance : {1.0, 1.2}) {
      const Frontier frontier = frontier_of(gpu, imbalance);
      const Plan plan = frontier.fastest_plan().value();
      const Joules tight = frontier.tight_lower_bound(plan.iteration_time);
      EXPECT_GE(tight, frontier.lower_bound(plan.iteration_time));
      EXPECT_LE(tight, plan.iteration_energy);
      const Certificate certificate = frontier.certificate(plan.iteration_time).value();
      some_are_too_long |= !certificate.longest.empty();
      const Verification found = verify_plan(plan, frontier.profile(), &certificate);
      EXPECT_TRUE(found.diagnostics.empty()) << found.diagnostics.front();
      ASSERT_TRUE(found.proven_bound);
      EXPECT_NEAR(found.proven_bound->value, tight.value, 1e-9 * tight.value);
      gap += plan.iteration_energy / frontier.lower_bound(plan.iteration_time) - 1;
      tight_gap += plan.iteration_energy / tight - 1;
    }
  }
  EXPECT_TRUE(some_are_too_long);
  EXPECT_LT(tight_gap, 0.5 * gap);
}

TEST(TightBound, IsHigherWhereTimesDoNotAddUpAroundLoops) {
  const Frontier frontier = frontier_of("h100-sxm", 1.1);
  const Seconds late = frontier.min_time() * 1.05;
  const Plan plan = frontier.plan(late).value();
  const Joules tight = frontier.tight_lower_bound(plan.iteration_time);
  EXPECT_GT(tight, frontier.lower_bound(plan.iteration_time) * (1 + 1e-5));
  EXPECT_LE(tight, plan.iteration_energy);
  const Certificate certificate = frontier.certificate(plan.iteration_time).value();
  EXPECT_TRUE(certificate.longest.empty());
  EXPECT_FALSE(certificate.loops.empty());
  const Verification found = verify_plan(plan, frontier.profile(), &certificate);
  EXPECT_TRUE(found.diagnostics.empty()) << found.diagnostics.front();
  EXPECT_NEAR(found.proven_bound->value, tight.value, 1e-9 * tight.value);
}

TEST(TightBound, BelievesNoLoopThatIsNone) {
  const Frontier frontier = frontier_of("h100-sxm", 1.1);
  const Plan plan = frontier.plan(frontier.min_time() * 1.05).value();
  const Certificate honest = frontier.certificate(plan.iteration_time).value();
  ASSERT_FALSE(honest.loops.empty());
  const auto& [first, second] = honest.loops.front().paths;
  const auto arcs = static_cast<int>(honest.node_flow.size() + honest.dependency_flow.size());
  const auto count = static_cast<int>(honest.loops.size());
  for (const CertificateLoop& bad :
       {CertificateLoop{{first, first}}, CertificateLoop{{first, {}}},
        CertificateLoop{{first, {0}}}, CertificateLoop{{first, {arcs}}},
        CertificateLoop{{first, {-1}}}, CertificateLoop{{first, {second[0], second[0]}}},
        CertificateLoop{{first, {second[0], second[0], second[0]}}}}) {
    Certificate wrong = honest;
    wrong.loops.push_back(bad);
    const Verification found = verify_plan(plan, frontier.profile(), &wrong);
    const std::string name = "loop " + std::to_string(count) + ": ";
    EXPECT_TRUE(std::ranges::any_of(found.diagnostics, [&](const std::string& text) {
      return text.find(name) != std::string::npos;
    }));
  }
}

TEST(TightBound, MovesLossesOnlyBetweenLoopsWithTheirArc) {
  const Frontier frontier = frontier_of("h100-sxm", 1.1);
  const Plan plan = frontier.plan(frontier.min_time() * 1.05).value();
  const Certificate honest = frontier.certificate(plan.iteration_time).value();
  ASSERT_FALSE(honest.transfers.empty());
  const Verification with = verify_plan(plan, frontier.profile(), &honest);
  Certificate without = honest;
  without.transfers.clear();
  const Verification even = verify_plan(plan, frontier.profile(), &without);
  EXPECT_GT(with.proven_bound->value, even.proven_bound->value * (1 + 1e-6));

  const auto is_refused = [&](const auto& spoil) {
    Certificate wrong = honest;
    spoil(wrong.transfers.back(), wrong);
    const Verification found = verify_plan(plan, frontier.profile(), &wrong);
    return std::ranges::any_of(found.diagnostics, [](const std::string& text) {
      return text.find("transfer ") != std::string::npos;
    });
  };
  const auto loops = static_cast<int>(honest.loops.size());
  EXPECT_FALSE(is_refused([](LossTransfer&, Certificate&) {}));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) { t.taker = t.giver; }));
  EXPECT_TRUE(is_refused([&](LossTransfer& t, Certificate&) { t.taker = loops; }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) { t.giver = -1; }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) { t.arc = -1; }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate& c) {
    c.loops[t.taker].paths = c.loops[t.giver == 0 ? 1 : 0].paths;
    t.arc = static_cast<int>(c.node_flow.size() + c.dependency_flow.size());
  }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) { t.moved.pop_back(); }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) {
    t.from.push_back(t.from.back());
    t.moved.push_back(0);
  }));
  // Sums would lose significant digits.
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate&) { t.moved.back() = 1LL << 40; }));
  EXPECT_TRUE(is_refused([](LossTransfer&, Certificate& c) { c.loss_unit = Joules{1e6}; }));
  EXPECT_TRUE(is_refused([](LossTransfer& t, Certificate& c) {
    t.moved.back() = 1LL << 20;  // allowed once, but not many times
    const LossTransfer much = t;
    c.transfers.insert(c.transfers.end(), 100'000, much);
  }));
  Certificate no_unit = honest;
  no_unit.loss_unit = Joules{0};
  EXPECT_FALSE(verify_plan(plan, frontier.profile(), &no_unit).diagnostics.empty());
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
  const Frontier frontier = frontier_of("h100-sxm", 1.0);
  bool has_longest = false, has_loops = false;
  for (const double slowdown : {1.0, 1.05}) {
    const Certificate written = frontier.certificate(frontier.min_time() * slowdown).value();
    has_longest |= !written.longest.empty();
    has_loops |= !written.loops.empty();
    const std::string text = certificate_json(written);
    const Certificate read = parse_certificate_json(text, "c.json").value();
    EXPECT_EQ(read.longest, written.longest);
    EXPECT_EQ(read.loops, written.loops);
    EXPECT_EQ(read.transfers, written.transfers);
    EXPECT_EQ(read.loss_unit, written.loss_unit);
    EXPECT_EQ(certificate_json(read), text);
  }
  EXPECT_TRUE(has_longest && has_loops);
}

TEST(TightBound, SaysWhereALoopIsNotAsItShouldBe) {
  Certificate certificate{.deadline = 1_s,
                          .flow_unit = 1_W,
                          .time_unit = 1_s,
                          .node_flow = {},
                          .dependency_flow = {},
                          .source_flow = {},
                          .sink_flow = {},
                          .start = {},
                          .end = {},
                          .longest = {},
                          .loops = {CertificateLoop{{{{1, 2}, {3}}}}},
                          .transfers = {{1, 4, 5, {6, 7}, {-8, 9}}},
                          .loss_unit = Joules{0.5}};
  std::string text = certificate_json(certificate);
  ASSERT_TRUE(parse_certificate_json(text, "c.json").ok());
  const auto expect_refused = [&](const std::string& good, const std::vector<const char*>& bad) {
    const std::size_t at = text.find(good);
    ASSERT_NE(at, std::string::npos) << good;
    for (const char* instead : bad) {
      std::string wrong = text;
      wrong.replace(at, good.size(), instead);
      const auto read = parse_certificate_json(wrong, "c.json");
      ASSERT_FALSE(read.ok()) << instead;
      EXPECT_NE(read.error().text().find("expected"), std::string::npos) << read.error().text();
    }
  };
  expect_refused("[[[1, 2], [3]]]", {"3", "[3]", "[[3]]", "[[[1], [2], [3]]]", "[[[1], 2]]",
                                     "[[[1], [-2]]]", "[[[1], [0.5]]]", "[[[1], [3000000000]]]"});
  expect_refused("[[1, 4, 5], [6, 7], [-8, 9]]",
                 {"3", "[3]", "[[1, 4], [6], [8]]", "[[1, 4, -5], [6], [8]]", "[[1, 4, 5], [6]]",
                  "[[1, 4, 5], 6, 8]", "[[1, 4, 5], [6], [0.5]]", "[[1, 4, 5], [6, 7], [8]]"});
  expect_refused("\"loss_unit_j\": 0.5", {"\"loss_unit_j\": 0", "\"loss_unit_j\": []"});
}

}  // namespace
}  // namespace harpe::plan
