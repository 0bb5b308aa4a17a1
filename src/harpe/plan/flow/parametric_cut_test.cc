#include "harpe/plan/flow/parametric_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/flow/textbook_cut_testing.h"

namespace harpe::plan::flow {
namespace {

// Shape of a random network: the numbers of nodes, of extra arcs and of lengths of a curve, and the
// sizes of the sets from which lengths and rates are drawn (small sets give ties, at which such
// methods break).
struct Shape {
  int nodes = 8;
  int extra_arcs = 12;
  int lengths = 4;
  int length_values = 1000;
  int rate_values = 1000;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

 private:
  std::mt19937 engine_;
};

Curve random_curve(Random& random, const Shape& shape) {
  if (random.below(4) == 0) return Curve::fixed(random.below(3));
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> rates;
  const int count = 1 + random.below(shape.lengths);
  for (int i = 0; i < count; ++i) lengths.push_back(random.below(shape.length_values));
  for (int i = 0; i < count; ++i) rates.push_back(1 + random.below(shape.rate_values));
  std::sort(lengths.rbegin(), lengths.rend());
  std::sort(rates.begin(), rates.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  const std::size_t size = std::min(lengths.size(), rates.size() + 1);
  Curve curve;
  curve.length.assign(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(size));
  curve.rate.assign(1, 0);
  curve.rate.insert(curve.rate.end(), rates.begin(),
                    rates.begin() + static_cast<std::ptrdiff_t>(size) - 1);
  curve.rate.push_back(kUnbounded);
  return curve;
}

// Nodes in topological order, source first and sink last; every node gets an arc in and an arc out.
Network random_network(Random& random, const Shape& shape) {
  Network network;
  network.nodes = shape.nodes;
  network.source = 0;
  network.sink = shape.nodes - 1;
  const auto add = [&](int tail, int head) {
    network.curves.push_back(random_curve(random, shape));
    network.arcs.push_back({tail, head, static_cast<std::int32_t>(network.curves.size() - 1),
                            random.below(5) == 0 ? -random.below(4) : 0});
  };
  for (int v = 1; v < shape.nodes; ++v) add(random.below(v), v);
  for (int v = 0; v + 1 < shape.nodes; ++v) add(v, v + 1 + random.below(shape.nodes - v - 1));
  for (int i = 0; i < shape.extra_arcs; ++i) {
    const int tail = random.below(shape.nodes - 1);
    add(tail, tail + 1 + random.below(shape.nodes - tail - 1));
  }
  return network;
}

const Shape kShapes[] = {
    {2, 2, 5, 20, 10},          {4, 3, 3, 6, 4},        {6, 8, 4, 1000, 1000},
    {10, 20, 6, 50, 5},         {25, 60, 8, 100000, 7}, {60, 150, 5, 10, 1000000},
    {120, 300, 10, 10000, 100},
};

TEST(ParametricCut, AgreesWithTheTextbookOnRandomNetworks) {
  constexpr unsigned kNetworks = HARPE_UNDER_SANITIZERS ? 140 : 700;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Network network = random_network(random, kShapes[seed % std::size(kShapes)]);
    const State start = slowest(network);
    ASSERT_TRUE(is_optimal(network, start));
    const TextbookResult expected = textbook_cut(network, start);
    ASSERT_TRUE(is_optimal(network, expected.state));
    // The size of the clusters changes the speed, not the result.
    const Division divided{.cluster_size = 1 + seed % 20, .window = 1 + seed % 7, .large = 0};
    for (const Division& division : {Division{}, divided}) {
      ParametricCut cut(network, start, division);
      std::vector<Breakpoint> breakpoints;
      ASSERT_EQ(cut.run({}, breakpoints), Stop::kFastest);
      EXPECT_EQ(breakpoints, expected.breakpoints);
      EXPECT_EQ(cut.horizon(), expected.state.horizon(network));
      EXPECT_TRUE(is_optimal(network, cut.state()));
    }
  }
}

TEST(ParametricCut, IsOptimalAfterEveryStep) {
  for (unsigned seed = 0; seed < 140; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 1000);
    const Network network = random_network(random, kShapes[seed % std::size(kShapes)]);
    ParametricCut cut(network, slowest(network));
    std::vector<Breakpoint> breakpoints;
    std::int64_t horizon = cut.horizon();
    while (cut.run({.steps = 1}, breakpoints) != Stop::kFastest) {
      ASSERT_TRUE(is_optimal(network, cut.state()));
      ASSERT_LT(cut.horizon(), horizon);
      horizon = cut.horizon();
    }
  }
}

TEST(ParametricCut, StopsExactlyAtAHorizonAndGoesOnFromThere) {
  for (unsigned seed = 0; seed < 140; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 2000);
    const Network network = random_network(random, kShapes[seed % std::size(kShapes)]);
    const CostCurve curve = sweep(network);
    ParametricCut cut(network, slowest(network));
    std::vector<Breakpoint> breakpoints;
    for (int i = 1; i <= 5; ++i) {
      const std::int64_t horizon = curve.longest - (curve.longest - curve.shortest) * i / 6;
      cut.run({.horizon = horizon}, breakpoints);
      ASSERT_EQ(cut.horizon(), horizon);
      ASSERT_TRUE(is_optimal(network, cut.state()));
    }
    ASSERT_EQ(cut.run({}, breakpoints), Stop::kFastest);
    std::vector<Breakpoint> merged;
    for (const Breakpoint& b : breakpoints) {
      if (!merged.empty() && merged.back().horizon == b.horizon) merged.pop_back();
      merged.push_back(b);
    }
    EXPECT_EQ(merged, curve.breakpoints);
  }
}

TEST(ParametricCut, RisesAndFallsAsACostCurveMust) {
  for (unsigned seed = 0; seed < 70; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 3000);
    const CostCurve curve = sweep(random_network(random, kShapes[seed % std::size(kShapes)]));
    for (std::size_t i = 1; i < curve.breakpoints.size(); ++i) {
      ASSERT_LT(curve.breakpoints[i].horizon, curve.breakpoints[i - 1].horizon);
      ASSERT_GT(curve.breakpoints[i].value, curve.breakpoints[i - 1].value);
    }
  }
}

TEST(Sweep, RebuildsTheOptimumAtAnyHorizonFromFewCheckpoints) {
  for (unsigned seed = 0; seed < 70; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 4000);
    const Network network = random_network(random, kShapes[seed % std::size(kShapes)]);
    const CostCurve curve = sweep(network, {.checkpoint_bytes = 1});
    EXPECT_LE(curve.checkpoints.size(), 5u);
    for (int i = 0; i <= 10; ++i) {
      const std::int64_t horizon = curve.longest - (curve.longest - curve.shortest) * i / 10;
      const State state = curve.at(network, horizon);
      ASSERT_EQ(state.horizon(network), horizon);
      ASSERT_TRUE(is_optimal(network, state));
    }
  }
}

TEST(Sweep, PassesOverOptimaOnTheWayAndFindsTheSameCurve) {
  for (unsigned seed = 0; seed < 140; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 5000);
    const Network network = random_network(random, kShapes[seed % std::size(kShapes)]);
    const CostCurve plain = sweep(network);
    std::vector<std::int64_t> visited;
    const auto visit = [&](const State& state) {
      ASSERT_TRUE(is_optimal(network, state));
      visited.push_back(state.horizon(network));
    };
    const CostCurve curve = sweep(network, {.visits = 7, .visit = visit});
    EXPECT_EQ(curve.breakpoints, plain.breakpoints);
    ASSERT_EQ(visited.size(), 7u);
    const std::int64_t apart = (curve.longest - curve.shortest) / 8;
    for (std::int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(visited[static_cast<std::size_t>(i)], curve.longest - (i + 1) * apart);
    std::size_t next = 0;
    curve.visit(network, visited, [&](const State& state) {
      ASSERT_TRUE(is_optimal(network, state));
      EXPECT_EQ(state.horizon(network), visited[next++]);
    });
    EXPECT_EQ(next, visited.size());
  }
}

TEST(Slowest, ReportsACircle) {
  Network network{3, 0, 2, {{0, 1, 0, 0}, {1, 0, 0, 0}, {1, 2, 0, 0}}, {Curve::fixed(1)}};
  EXPECT_TRUE(slowest(network).potential.empty());
}

}  // namespace
}  // namespace harpe::plan::flow
