#include "harpe/plan/frontier/loss_sharing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "harpe/plan/frontier/least_together.h"

namespace harpe::plan {
namespace {

// Bits of the largest moved loss. Rounding to them costs a few millionths of the sum.
constexpr int kBits = 16;

// Appends a time and its moved loss, unless the loss equals the previous one. Replaces the previous
// loss if the time is equal.
void append(LossTransfer& transfer, std::int64_t from, std::int64_t moved) {
  if (!transfer.from.empty() && transfer.from.back() == from) {
    transfer.moved.back() = moved;
  } else if (moved != (transfer.moved.empty() ? 0 : transfer.moved.back())) {
    transfer.from.push_back(from);
    transfer.moved.push_back(moved);
  }
}

}  // namespace

LossSharing::LossSharing(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs,
                         std::size_t choices)
    : arcs_(arcs), uses_of_(arcs.size()) {
  choose(choices);
  for (const CertificateLoop& loop : loops) {
    Loop& mine = loops_.emplace_back();
    for (std::size_t side = 0; side < 2; ++side) mine[side] = path_of(loop.paths[side]);
  }
  for (Use& use : uses_) {
    const auto shares = static_cast<double>(uses_of_[use.arc].size());
    for (const int k : choices_[use.arc])
      use.loss.push_back(arcs_[use.arc].choices[k].loss.value / shares);
  }
  for (Loop& loop : loops_) {
    for (Path& path : loop) {
      for (const int u : path.uses) {
        const auto shares = static_cast<double>(uses_of_[uses_[u].arc].size());
        path.wait_price = std::min(path.wait_price, arcs_[uses_[u].arc].flow.value / shares);
      }
      sort_points(path);
    }
  }
}

void LossSharing::choose(std::size_t most) {
  for (const LossyArc& arc : arcs_) {
    std::vector<int>& chosen = choices_.emplace_back(arc.choices.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    if (chosen.size() <= most) continue;
    std::ranges::sort(chosen, [&](int a, int b) {
      return std::pair(arc.choices[a].loss, a) < std::pair(arc.choices[b].loss, b);
    });
    chosen.resize(most);
    std::ranges::sort(chosen);
  }
}

LossSharing::Path LossSharing::path_of(const std::vector<int>& arcs) {
  Path path;
  for (const int arc : arcs) {
    const auto use = static_cast<int>(uses_.size());
    path.uses.push_back(use);
    uses_.push_back({.arc = arc, .loss = {}});
    loop_of_.push_back(static_cast<int>(loops_.size()) - 1);
    rank_.push_back(static_cast<int>(uses_of_[arc].size()));
    uses_of_[arc].push_back(use);
  }
  return path;
}

void LossSharing::sort_points(Path& path) const {
  const auto times_of = [&](std::size_t i) {
    if (i >= path.uses.size()) return std::vector<double>{0};
    std::vector<double> times;
    const int arc = uses_[path.uses[i]].arc;
    for (const int k : choices_[arc]) times.push_back(arcs_[arc].choices[k].time.value);
    return times;
  };
  const std::vector<double> first = times_of(0), second = times_of(1);
  for (std::size_t a = 0; a < first.size(); ++a) {
    for (std::size_t b = 0; b < second.size(); ++b) {
      path.points.push_back({.time = first[a] + second[b],
                             .first = static_cast<std::uint16_t>(a),
                             .second = static_cast<std::uint16_t>(b)});
    }
  }
  std::ranges::sort(path.points, [](const Point& a, const Point& b) {
    return std::tie(a.time, a.first, a.second) < std::tie(b.time, b.first, b.second);
  });
}

double LossSharing::loss_of(const Path& path, const Point& point) const {
  const double first = uses_[path.uses[0]].loss[point.first];
  return path.uses.size() == 1 ? first : first + uses_[path.uses[1]].loss[point.second];
}

template <class Tell>
void LossSharing::merge(const Path& own, const Path& other, const Tell& tell) {
  const auto own_loss = [&](const Point& point) { return loss_of(own, point); };
  const auto other_loss = [&](const Point& point) { return loss_of(other, point); };
  least_together(LossyPath{std::span<const Point>(own.points), own_loss, own.wait_price},
                 LossyPath{std::span<const Point>(other.points), other_loss, other.wait_price},
                 longer_, tell);
}

double LossSharing::least_of(const Loop& loop) {
  double least = kInfinity;
  merge(loop[0], loop[1], [&](const Point&, double loss) { least = std::min(least, loss); });
  return least;
}

Joules LossSharing::least() {
  double sum = 0;
  for (const Loop& loop : loops_) sum += least_of(loop);
  return Joules{sum};
}

void LossSharing::set_least_by_choice(const Loop& loop, int use) {
  least_.assign(uses_[use].loss.size(), kInfinity);
  const bool is_first = std::ranges::find(loop[0].uses, use) != loop[0].uses.end();
  const Path& own = loop[is_first ? 0 : 1];
  const bool is_front = own.uses[0] == use;
  merge(own, loop[is_first ? 1 : 0], [&](const Point& point, double loss) {
    double& least = least_[is_front ? point.first : point.second];
    least = std::min(least, loss);
  });
}

// Moves excess losses to the next loop of each arc, or to the previous one. They are divided evenly
// among the arcs that have such a loop, with one share kept if some arc has none.
void LossSharing::hand_on(const Loop& loop, bool forwards) {
  std::vector<std::pair<int, int>> ways;  // from a use in this loop to the next of its arc
  bool leads_back = false;
  for (const Path& path : loop) {
    for (const int use : path.uses) {
      const auto& of_arc = uses_of_[uses_[use].arc];
      const int last = static_cast<int>(of_arc.size()) - 1;
      if (last == 0 || uses_[use].loss.size() == 1) continue;
      if (rank_[use] == (forwards ? last : 0)) {
        leads_back = true;
      } else {
        ways.emplace_back(use, of_arc[rank_[use] + (forwards ? 1 : -1)]);
      }
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const auto [here, there] = ways[i];
    set_least_by_choice(loop, here);
    const double least = *std::ranges::min_element(least_);
    const double share = 1.0 / static_cast<double>(ways.size() - i + (leads_back ? 1 : 0));
    for (std::size_t k = 0; k < least_.size(); ++k) {
      const double moved = share * (least_[k] - least);
      uses_[here].loss[k] -= moved;
      uses_[there].loss[k] += moved;
    }
  }
}

void LossSharing::improve() {
  for (const Loop& loop : loops_) hand_on(loop, true);
  for (std::size_t i = loops_.size(); i-- > 0;) hand_on(loops_[i], false);
}

double LossSharing::moved_on(int arc, std::size_t use, std::size_t k) const {
  const auto& uses = uses_of_[arc];
  const double even =
      arcs_[arc].choices[choices_[arc][k]].loss.value / static_cast<double>(uses.size());
  double moved = 0;
  for (std::size_t i = 0; i <= use; ++i) moved += even - uses_[uses[i]].loss[k];
  return moved;
}

LossTransfer LossSharing::transfer(int arc, std::size_t use, Seconds time_unit,
                                   Joules loss_unit) const {
  const auto& choices = arcs_[arc].choices;
  std::vector<std::int64_t> moved(choices.size(), 0);
  for (std::size_t k = 0; k < choices_[arc].size(); ++k) {
    moved[choices_[arc][k]] =
        static_cast<std::int64_t>(std::nearbyint(moved_on(arc, use, k) / loss_unit.value));
  }
  std::vector<std::size_t> by_time(choices.size());
  std::iota(by_time.begin(), by_time.end(), 0);
  std::ranges::sort(by_time, [&](std::size_t a, std::size_t b) {
    return std::pair(choices[a].time, a) < std::pair(choices[b].time, b);
  });
  LossTransfer made{.arc = arc,
                    .giver = loop_of_[uses_of_[arc][use]],
                    .taker = loop_of_[uses_of_[arc][use + 1]],
                    .from = {},
                    .moved = {}};
  for (const std::size_t k : by_time) {
    // One unit less, because the check of the certificate does not round times.
    const auto units = static_cast<std::int64_t>(choices[k].time / time_unit);
    append(made, std::max<std::int64_t>(0, units - 1), moved[k]);
  }
  return made;
}

void LossSharing::write_transfers(Certificate& certificate) const {
  double most = 0;
  for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
    for (std::size_t use = 0; use + 1 < uses_of_[arc].size(); ++use) {
      for (std::size_t k = 0; k < choices_[arc].size(); ++k)
        most = std::max(most, std::abs(moved_on(static_cast<int>(arc), use, k)));
    }
  }
  certificate.transfers.clear();
  if (most == 0) return;
  certificate.loss_unit = Joules{std::ldexp(1.0, std::ilogb(most) + 1 - kBits)};
  for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
    for (std::size_t use = 0; use + 1 < uses_of_[arc].size(); ++use) {
      LossTransfer made =
          transfer(static_cast<int>(arc), use, certificate.time_unit, certificate.loss_unit);
      if (!made.from.empty()) certificate.transfers.push_back(std::move(made));
    }
  }
}

}  // namespace harpe::plan
