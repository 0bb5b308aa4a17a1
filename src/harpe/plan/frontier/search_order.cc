#include "harpe/plan/frontier/search_order.h"

#include <algorithm>
#include <cmath>

namespace harpe::plan {

SearchOrder::SearchOrder(const Problem& problem) : problem_(problem) {
  const flow::Network& network = problem.network;
  const std::size_t arcs = network.arcs.size();
  std::vector<std::int32_t> node_of(arcs, -1);
  std::vector<std::int64_t> lag(arcs, 0);
  for (std::size_t i = 0; i < problem.node_arc.size(); ++i) {
    node_of[problem.node_arc[i]] = static_cast<std::int32_t>(i);
  }
  const auto dependencies = problem.pipeline.dependencies();
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    if (problem.dependency_arc[i] >= 0) {
      lag[problem.dependency_arc[i]] = picoseconds(dependencies[i].lag);
    }
  }

  first_out_.assign(network.nodes + 1, 0);
  first_in_.assign(network.nodes + 1, 0);
  for (const flow::Arc& arc : network.arcs) {
    ++first_out_[arc.tail + 1];
    ++first_in_[arc.head + 1];
  }
  for (std::int32_t v = 0; v < network.nodes; ++v) {
    first_out_[v + 1] += first_out_[v];
    first_in_[v + 1] += first_in_[v];
  }
  out_.resize(arcs);
  in_.resize(arcs);
  std::vector<std::int32_t> next_out(first_out_.begin(), first_out_.end() - 1);
  std::vector<std::int32_t> next_in(first_in_.begin(), first_in_.end() - 1);
  for (std::size_t i = 0; i < arcs; ++i) {
    const flow::Arc& arc = network.arcs[i];
    const std::int32_t node = node_of[i];
    const std::int32_t table = node < 0 ? -1 : problem.table[node];
    const auto index = static_cast<std::int32_t>(i);
    out_[next_out[arc.tail]++] = {arc.head, node, lag[i], index, table};
    in_[next_in[arc.head]++] = {arc.tail, node, lag[i], index, table};
  }

  order_.push_back(network.source);
  std::vector<std::int32_t> missing(network.nodes);
  for (std::int32_t v = 0; v < network.nodes; ++v) missing[v] = first_in_[v + 1] - first_in_[v];
  for (std::size_t i = 0; i < order_.size(); ++i) {
    for (const Arc& arc : out(order_[i])) {
      if (--missing[arc.event] == 0) order_.push_back(arc.event);
    }
  }

  place_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = static_cast<std::int32_t>(i);

  first_option_.push_back(0);
  for (const OptionTable& table : problem.tables) {
    for (const Option& option : table.options) {
      times_.push_back(option.time);
      nanoseconds_.push_back(to_nanoseconds(option.point.time));
      costs_.push_back(option.cost);
    }
    first_option_.push_back(static_cast<std::int32_t>(times_.size()));
  }
}

int SearchOrder::last_within(std::span<const std::int64_t> times, std::int64_t room) {
  return static_cast<int>(std::upper_bound(times.begin() + 1, times.end(), room) - times.begin()) -
         1;
}

double SearchOrder::average_step() const {
  double sum = 0;
  double steps = 0;
  for (std::size_t t = 0; t < problem_.tables.size(); ++t) {
    const auto costs = this->costs(static_cast<std::int32_t>(t));
    sum += static_cast<double>(costs.front() - costs.back());
    steps += static_cast<double>(costs.size() - 1);
  }
  return steps > 0 ? sum / steps : 0;
}

void SearchOrder::set_earliest(const Assignment& choice, EventTimes& time) const {
  std::fill(time.begin(), time.end(), 0);
  for (const std::int32_t u : order_) {
    for (const Arc& arc : out(u)) {
      const std::int64_t length = arc.node < 0 ? arc.lag : times(arc.table)[choice[arc.node]];
      time[arc.event] = std::max(time[arc.event], time[u] + length);
    }
  }
}

void SearchOrder::set_latest(const Assignment& choice, std::int64_t deadline,
                             EventTimes& time) const {
  std::fill(time.begin(), time.end(), deadline);
  for (std::size_t i = order_.size(); i-- > 0;) {
    const std::int32_t v = order_[i];
    for (const Arc& arc : in(v)) {
      const std::int64_t length = arc.node < 0 ? arc.lag : times(arc.table)[choice[arc.node]];
      time[arc.event] = std::min(time[arc.event], time[v] - length);
    }
  }
}

void SearchOrder::scatter(const Assignment& choice, const EventTimes& latest, SearchRandom& random,
                          EventTimes& time) const {
  const std::size_t manner = random.below(4);
  std::fill(time.begin(), time.end(), 0);
  for (const std::int32_t u : order_) {
    const std::int64_t slack = latest[u] - time[u];
    if (slack > 0 && u != problem_.network.source) {
      if (manner == 1) {
        time[u] += slack;
      } else if (manner >= 2 && random.below(manner == 2 ? 2 : 8) == 0) {
        time[u] += static_cast<std::int64_t>(random.below(static_cast<std::size_t>(slack)));
      }
    }
    for (const Arc& arc : out(u)) {
      const std::int64_t length = arc.node < 0 ? arc.lag : times(arc.table)[choice[arc.node]];
      time[arc.event] = std::max(time[arc.event], time[u] + length);
    }
  }
  time[problem_.network.sink] = latest[problem_.network.sink];
}

std::int64_t SearchOrder::fit(const EventTimes& time, Assignment& choice) const {
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const std::int32_t table = problem_.table[i];
    choice[i] = cheapest_within(table, time[problem_.end_node[i]] - time[problem_.start_node[i]]);
    cost += costs(table)[choice[i]];
  }
  return cost;
}

}  // namespace harpe::plan
