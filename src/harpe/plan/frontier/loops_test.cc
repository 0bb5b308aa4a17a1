// The loss of loops for any sharing, compared with trying every choice.

#include "harpe/plan/frontier/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "harpe/plan/frontier/loss_sharing.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {
namespace {

LossyArc arc(double flow, std::vector<ArcChoice> choices) {
  return {std::move(choices), Watts{flow}};
}

CertificateLoop loop(std::vector<int> first, std::vector<int> second) {
  return {{std::move(first), std::move(second)}};
}

Certificate certificate_of(std::vector<CertificateLoop> loops) {
  Certificate certificate{};
  certificate.time_unit = Seconds{1e-9};
  certificate.loops = std::move(loops);
  return certificate;
}

double shared_evenly(const std::vector<CertificateLoop>& loops, const std::vector<LossyArc>& arcs) {
  return least_loss(certificate_of(loops), arcs).value;
}

TEST(Loops, LoseWhatIsLeastForBothPaths) {
  // Arc 0 of 1.0 s is parallel to arc 1 of 1.1 s. Arc 0 waits, for 1 J; or it takes 1.2 s for 0.4
  // J, and arc 1 waits, for 2 J; or it takes 1.08 s for 0.3 J and waits, for 0.2 J.
  const std::vector<LossyArc> arcs{
      arc(10, {{1.0_s, 0_J}, {1.08_s, Joules{0.3}}, {1.2_s, Joules{0.4}}}),
      arc(20, {{1.1_s, 0_J}})};
  const std::vector<CertificateLoop> loops{loop({0}, {1})};
  EXPECT_NEAR(shared_evenly(loops, arcs), 0.5, 1e-12);
}

TEST(Loops, ThatAreNoneLoseNothing) {
  EXPECT_EQ(shared_evenly({}, {arc(1, {{1.0_s, 0_J}})}), 0);
}

TEST(Loops, PayForWaitingOnceWhereTwoShareAnArc) {
  // Arc 0 is 0.1 s too short in both loops, at half of its price in each.
  const std::vector<LossyArc> arcs{arc(10, {{1.0_s, 0_J}}), arc(50, {{1.1_s, 0_J}}),
                                   arc(50, {{1.1_s, 0_J}})};
  const std::vector<CertificateLoop> loops{loop({0}, {1}), loop({0}, {2})};
  EXPECT_NEAR(shared_evenly(loops, arcs), 1, 1e-12);
}

struct Random {
  std::mt19937_64 engine;
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine() >> 11) * 0x1p-53;
  }
};

std::vector<LossyArc> random_arcs(Random& random, std::size_t n, std::size_t choices) {
  std::vector<LossyArc> arcs;
  for (std::size_t a = 0; a < n; ++a) {
    LossyArc& made = arcs.emplace_back();
    made.flow = Watts{random.between(0, 30)};
    for (std::size_t k = 0; k < choices; ++k) {
      made.choices.push_back(
          {Seconds{random.between(0.8, 1.2)}, Joules{k == 0 ? 0 : random.between(0, 0.6)}});
    }
  }
  return arcs;
}

// Returns the least loss of all choices. Each arc has the same choice in all its loops, and each
// loop waits at its share of the least price on a path.
double by_trying_all(const std::vector<CertificateLoop>& loops, const std::vector<LossyArc>& arcs) {
  std::vector<double> uses(arcs.size(), 0);
  for (const CertificateLoop& one : loops) {
    for (const auto& path : one.paths) {
      for (const int a : path) ++uses[a];
    }
  }
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> choice(arcs.size(), 0);
  while (true) {
    double sum = 0;
    for (std::size_t a = 0; a < arcs.size(); ++a)
      sum += uses[a] > 0 ? arcs[a].choices[choice[a]].loss.value : 0;
    for (const CertificateLoop& one : loops) {
      double time[2] = {0, 0}, price[2] = {1e9, 1e9};
      for (std::size_t side = 0; side < 2; ++side) {
        for (const int a : one.paths[side]) {
          time[side] += arcs[a].choices[choice[a]].time.value;
          price[side] = std::min(price[side], arcs[a].flow.value / uses[a]);
        }
      }
      const std::size_t shorter = time[0] < time[1] ? 0 : 1;
      sum += price[shorter] * std::abs(time[0] - time[1]);
    }
    least = std::min(least, sum);
    std::size_t a = 0;
    while (a < choice.size() && ++choice[a] == arcs[a].choices.size()) choice[a++] = 0;
    if (a == choice.size()) return least;
  }
}

// Losses of loops with random arcs, summed over all seeds.
struct Found {
  double even = 0, shared = 0, by_trying = 0;
};
Found found_by_sharing(const std::vector<CertificateLoop>& loops, std::size_t arcs,
                       std::size_t choices) {
  Found found;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random{std::mt19937_64(seed)};
    const std::vector<LossyArc> made = random_arcs(random, arcs, 3);
    const double all = by_trying_all(loops, made);
    LossSharing sharing(loops, made, choices);
    double before = sharing.least().value;
    found.even += shared_evenly(loops, made);
    for (int round = 0; round < 20; ++round) {
      sharing.improve();
      EXPECT_GE(sharing.least().value, before - 1e-12);
      before = sharing.least().value;
    }
    Certificate certificate = certificate_of(loops);
    sharing.write_transfers(certificate);
    const double proven = least_loss(certificate, made).value;
    EXPECT_LE(proven, all + 1e-9);
    // Losses are rounded when they are written, and other choices may be better.
    EXPECT_LE(proven, before + 5e-4);
    if (choices >= 3) {
      EXPECT_GE(proven, before - 5e-4);
    }
    found.shared += proven;
    found.by_trying += all;
  }
  return found;
}

// Arcs 1 and 2 are each in two loops, arc 3 in three.
const std::vector<CertificateLoop> kTree{loop({0, 1}, {2}), loop({1}, {3, 4}), loop({5}, {2}),
                                         loop({3}, {6}), loop({7}, {3})};
// Arcs 0, 1 and 4 are each in two loops.
const std::vector<CertificateLoop> kCircle{loop({0, 1}, {2}), loop({1}, {3, 4}), loop({4}, {5, 0})};

TEST(Loops, InATreeLoseNearlyTheLeastWhenTheyShareWell) {
  const Found found = found_by_sharing(kTree, 8, 3);
  EXPECT_GT(found.shared, 0.99 * found.by_trying);
  EXPECT_LT(found.even, 0.9 * found.by_trying);
}

TEST(Loops, InACircleLoseNoMoreThanTheLeast) {
  const Found found = found_by_sharing(kCircle, 6, 3);
  EXPECT_GT(found.shared, 0.9 * found.by_trying);
  EXPECT_LT(found.even, found.shared);
}

TEST(Loops, LoseWhatIsProvenAlsoAtChoicesThatTakeNoPartInSharing) {
  for (const auto* loops : {&kTree, &kCircle}) {
    const Found found = found_by_sharing(*loops, 8, 2);
    EXPECT_GT(found.shared, 0.5 * found.by_trying);
  }
}

TEST(Loops, CountWhatIsMovedByTheTimeOfAChoice) {
  // Each loop loses 0.5 J if arc 0 takes 1.1 s, and 1 J of waiting if it takes 1.0 s.
  const std::vector<LossyArc> arcs{arc(20, {{1.0_s, 0_J}, {1.1_s, 1_J}}), arc(50, {{1.1_s, 0_J}}),
                                   arc(50, {{1.1_s, 0_J}})};
  Certificate certificate = certificate_of({loop({0}, {1}), loop({0}, {2})});
  EXPECT_NEAR(least_loss(certificate, arcs).value, 1, 1e-12);
  certificate.loss_unit = Joules{0.25};
  // Now at 1.1 s the first loop loses 0.25 J and the second 0.75 J. At 1.0 s each still loses 1 J.
  certificate.transfers = {
      {.arc = 0, .giver = 0, .taker = 1, .from = {1'050'000'000}, .moved = {1}}};
  EXPECT_NEAR(least_loss(certificate, arcs).value, 1, 1e-12);
  // At 1.0 s the first loop loses 2 J and the second nothing.
  certificate.transfers = {
      {.arc = 0, .giver = 1, .taker = 0, .from = {0, 1'050'000'000}, .moved = {4, 0}}};
  EXPECT_NEAR(least_loss(certificate, arcs).value, 0.5, 1e-12);
}

TEST(Loops, OfAPipelineLieBetweenNeighbouringStages) {
  const Pipeline pipeline =
      Pipeline::build(one_f_one_b({.stages = 4, .micro_batches = 12}).value()).value();
  const auto dependencies = pipeline.dependencies();
  const std::size_t nodes = pipeline.nodes().size();
  std::vector<bool> left_out;
  for (const Dependency& d : dependencies) {
    left_out.push_back(pipeline.nodes()[d.from].stage == pipeline.nodes()[d.to].stage &&
                       d.to - d.from > 1);
  }
  const EventArcs events = event_arcs(nodes, dependencies, left_out);
  std::vector<LossyArc> arcs(nodes, arc(1, {{1.0_s, 0_J}, {1.1_s, 0_J}}));
  arcs.resize(nodes + dependencies.size(), arc(1, {{0_s, 0_J}}));
  const std::vector<CertificateLoop> loops = find_loops(events, arcs);
  // Forward and backward of one stage are parallel to backward and forward of the next, for each
  // micro-batch while all stages are busy.
  EXPECT_GT(loops.size(), 3U * (12 - 4));
  for (const CertificateLoop& found : loops) {
    std::vector<int> stages;
    for (const auto& path : found.paths) {
      for (const int a : path) {
        if (static_cast<std::size_t>(a) < nodes) stages.push_back(pipeline.nodes()[a].stage);
      }
    }
    const auto [low, high] = std::minmax_element(stages.begin(), stages.end());
    EXPECT_LE(*high - *low, 1);
  }
}

}  // namespace
}  // namespace harpe::plan
