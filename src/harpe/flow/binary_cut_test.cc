#include "harpe/flow/binary_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace harpe::flow {
namespace {

// The cost of a choice, term by term.
struct Instance {
  Network network;
  std::vector<std::int64_t> unary, forward, backward;

  std::int64_t cost(std::uint32_t chosen) const {
    std::int64_t sum = 0;
    const auto y = [&](std::int32_t v) { return (chosen >> v & 1) != 0; };
    for (std::int32_t v = 0; v < network.nodes; ++v) sum += y(v) ? unary[v] : 0;
    for (std::size_t i = 0; i < network.arcs.size(); ++i) {
      const Arc& arc = network.arcs[i];
      if (y(arc.tail) && !y(arc.head)) sum += forward[i];
      if (!y(arc.tail) && y(arc.head)) sum += backward[i];
    }
    return sum;
  }
};

Instance random_instance(std::mt19937& engine) {
  const auto below = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
  Instance instance;
  Network& network = instance.network;
  network.nodes = 2 + below(9);
  network.source = 0;
  network.sink = network.nodes - 1;
  for (std::int32_t v = 0; v < network.nodes; ++v) instance.unary.push_back(below(21) - 10);
  instance.unary[network.source] = instance.unary[network.sink] = 0;
  const int arcs = below(25);
  for (int i = 0; i < arcs; ++i) {
    const int tail = below(network.nodes);
    const int head = below(network.nodes);
    if (tail == head) continue;
    network.arcs.push_back({tail, head, 0, 0});
    instance.forward.push_back(below(8) == 0 ? kUnbounded : below(12));
    instance.backward.push_back(below(3) == 0 ? 0 : below(12));
  }
  return instance;
}

TEST(BinaryCut, FindsTheBestOfAllChoices) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 engine(seed);
    const Instance instance = random_instance(engine);
    const Network& network = instance.network;
    BinaryCut cut(network);
    for (int repeat = 0; repeat < 2; ++repeat) {  // an engine can be used again
      cut.clear();
      for (std::int32_t v = 0; v < network.nodes; ++v) cut.add_unary(v, instance.unary[v]);
      for (std::size_t i = 0; i < network.arcs.size(); ++i) {
        cut.set_arc(static_cast<std::int32_t>(i), instance.forward[i], instance.backward[i]);
      }
      const std::int64_t found = cut.solve();
      std::uint32_t chosen = 0;
      for (std::int32_t v = 0; v < network.nodes; ++v) chosen |= (cut.chosen(v) ? 1u : 0u) << v;
      ASSERT_FALSE(cut.chosen(network.source));
      ASSERT_FALSE(cut.chosen(network.sink));
      std::int64_t best = 0;
      for (std::uint32_t y = 0; y < 1u << network.nodes; ++y) {
        if ((y & 1) || (y >> network.sink & 1)) continue;
        best = std::min(best, instance.cost(y));
      }
      ASSERT_EQ(found, best);
      ASSERT_EQ(instance.cost(chosen), best);
    }
  }
}

}  // namespace
}  // namespace harpe::flow
