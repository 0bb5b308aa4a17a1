#include "harpe/plan/frontier/loops.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "harpe/plan/frontier/least_together.h"

namespace harpe::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// An event with more arcs would begin many loops, which share the same losses.
constexpr std::size_t kMostWaysOut = 8;
// Choices per arc for the first upper bound of the least loss of a loop.
constexpr std::size_t kFewChoices = 5;

/// Time and loss of a path with one choice for each arc.
struct Point {
  double time = 0, loss = 0;
};

/// An arc in a loop.
struct Use {
  const LossyArc* arc;
  std::vector<double> loss;       // per choice, the part that counts in this loop
  std::vector<int> offered = {};  // indices of choices

  double least() const { return *std::ranges::min_element(loss); }
};
struct Path {
  std::vector<Use> uses;
  double wait_price = kInfinity;  // of the arc where waiting costs least
};
using Paths = std::array<Path, 2>;

void add_transfer(const LossTransfer& transfer, double sign, const Certificate& certificate,
                  std::vector<double>& loss, const LossyArc& arc) {
  for (std::size_t k = 0; k < loss.size(); ++k) {
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < transfer.from.size(); ++i) {
      if (certificate.time_unit * static_cast<double>(transfer.from[i]) <= arc.choices[k].time)
        moved = transfer.moved[i];
    }
    loss[k] += sign * certificate.loss_unit.value * static_cast<double>(moved);
  }
}

/// Returns all combinations of choices of a path, by rising time.
std::vector<Point> combine(const Path& path) {
  std::vector<Point> points{{}};
  for (const Use& use : path.uses) {
    std::vector<Point> longer;
    longer.reserve(points.size() * use.offered.size());
    for (const Point& point : points) {
      for (const int k : use.offered)
        longer.push_back({point.time + use.arc->choices[k].time.value, point.loss + use.loss[k]});
    }
    points = std::move(longer);
  }
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return std::tie(a.time, a.loss) < std::tie(b.time, b.loss);
  });
  return points;
}

double least_of_offered(const Paths& paths) {
  const std::vector<Point> own = combine(paths[0]), other = combine(paths[1]);
  const auto loss = [](const Point& point) { return point.loss; };
  double least = kInfinity;
  std::vector<double> longer;
  least_together(LossyPath{std::span<const Point>(own), loss, paths[0].wait_price},
                 LossyPath{std::span<const Point>(other), loss, paths[1].wait_price}, longer,
                 [&](const Point&, double together) { least = std::min(least, together); });
  return least;
}

void offer_few(Use& use) {
  use.offered.resize(use.loss.size());
  std::iota(use.offered.begin(), use.offered.end(), 0);
  std::ranges::sort(use.offered, [&](int a, int b) {
    return std::pair(use.loss[a], a) < std::pair(use.loss[b], b);
  });
  if (use.offered.size() > kFewChoices) use.offered.resize(kFewChoices);
}

void offer_up_to(Use& use, double most) {
  use.offered.clear();
  for (std::size_t k = 0; k < use.loss.size(); ++k) {
    if (use.loss[k] <= most) use.offered.push_back(static_cast<int>(k));
  }
}

double least_of(Paths& paths) {
  double sum = 0;  // of the least loss of each arc
  for (Path& path : paths) {
    for (Use& use : path.uses) {
      offer_few(use);
      sum += use.least();
    }
  }
  // A choice that loses more than a known answer, with the other arcs at their least, is in no
  // better answer.
  const double most = least_of_offered(paths);
  for (Path& path : paths) {
    for (Use& use : path.uses) offer_up_to(use, most - (sum - use.least()));
  }
  // Rounding may leave no choices. Then the known answer is the least.
  return std::min(most, least_of_offered(paths));
}

bool is_loop(const EventArcs& events, const std::vector<int>& first,
             const std::vector<int>& second) {
  if (first.front() == second.front() || first.back() == second.back()) return false;
  if (events.head[first.back()] != events.head[second.back()]) return false;
  return first.size() == 1 || second.size() == 1 || events.head[first[0]] != events.head[second[0]];
}

}  // namespace

std::vector<CertificateLoop> find_loops(const EventArcs& events, std::span<const LossyArc> arcs) {
  std::vector<std::vector<int>> out(events.tail.size());  // arcs of each event
  for (std::size_t a = 0; a < events.tail.size(); ++a) {
    if (events.tail[a] >= 0 && arcs[a].flow > Watts{0})
      out[events.tail[a]].push_back(static_cast<int>(a));
  }
  std::vector<CertificateLoop> loops;
  for (const std::vector<int>& first : out) {
    if (first.size() < 2 || first.size() > kMostWaysOut) continue;
    std::vector<std::vector<int>> paths;
    for (const int a : first) {
      paths.push_back({a});
      const auto& second = out[events.head[a]];
      if (second.size() > kMostWaysOut) continue;
      for (const int b : second) paths.push_back({a, b});
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      for (std::size_t j = i + 1; j < paths.size(); ++j) {
        if (is_loop(events, paths[i], paths[j])) loops.push_back({{paths[i], paths[j]}});
      }
    }
  }
  return loops;
}

Joules least_loss(const Certificate& certificate, std::span<const LossyArc> arcs) {
  std::vector<double> uses(arcs.size(), 0);
  for (const CertificateLoop& loop : certificate.loops) {
    for (const auto& path : loop.paths) {
      for (const int arc : path) ++uses[arc];
    }
  }
  std::vector<std::vector<const LossTransfer*>> transfers(certificate.loops.size());
  for (const LossTransfer& transfer : certificate.transfers) {
    transfers[transfer.giver].push_back(&transfer);
    transfers[transfer.taker].push_back(&transfer);
  }
  double sum = 0;
  for (std::size_t i = 0; i < certificate.loops.size(); ++i) {
    Paths paths;
    for (std::size_t side = 0; side < 2; ++side) {
      for (const int a : certificate.loops[i].paths[side]) {
        Use use{.arc = &arcs[a], .loss = {}};
        for (const ArcChoice& choice : arcs[a].choices)
          use.loss.push_back(choice.loss.value / uses[a]);
        for (const LossTransfer* transfer : transfers[i]) {
          if (transfer->arc != a) continue;
          const bool gives = transfer->giver == static_cast<int>(i);
          add_transfer(*transfer, gives ? -1 : 1, certificate, use.loss, arcs[a]);
        }
        Path& path = paths[side];
        path.wait_price = std::min(path.wait_price, arcs[a].flow.value / uses[a]);
        path.uses.push_back(std::move(use));
      }
    }
    sum += least_of(paths);
  }
  return Joules{sum};
}

}  // namespace harpe::plan
