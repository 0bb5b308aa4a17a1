#include "harpe/plan/frontier/branch_and_bound.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace harpe::plan {
namespace {

// --- The steps of partial plans -----------------------------------------------------------------

/// The choices of an instruction, with their time and cost after each setting of its stage.
struct ChoiceTable {
  std::vector<int> choice;               ///< index in `PointCosts::choices_of`
  std::vector<int> setting;              ///< number of its setting on the stage
  std::vector<std::int64_t> time, cost;  ///< rows are settings before, columns choices
  std::int64_t shortest = 0, longest = 0;

  std::size_t size() const { return choice.size(); }
  std::size_t at(std::size_t before, std::size_t k) const { return before * choice.size() + k; }
};

/// The computations of a stage, in order.
struct StageList {
  std::vector<int> nodes;
  std::size_t settings = 1;
  std::vector<int> numbers;  ///< numbers of its settings in the search; empty if switching is free
  std::vector<ChoiceTable> tables;  ///< one per node
};

/// An arc of the network. A partial plan grows by one arc at a time.
struct Step {
  std::int32_t tail, head;
  std::int32_t network_arc;
  std::int64_t time = 0, cost = 0;  ///< of a step without a choice
  int stage = -1;                   ///< stage of the computation; -1: no computation
  std::size_t position = 0;         ///< in the list of its stage
  bool has_choice() const { return stage >= 0; }
};

/// All steps of a pipeline. Settings are numbered from 0 on each stage. Immutable. Holds references
/// to the search.
class BranchSteps {
 public:
  /// If switching is free, a stage has one setting.
  /// \param keeps_beaten  if switching is free, keeps choices beaten in time and cost
  BranchSteps(const SwitchingSearch& search, bool keeps_beaten)
      : costs_(search.costs()),
        network_(search.costs().layout().problem().network),
        is_free_(search.is_free()) {
    make_stages(keeps_beaten);
    make_steps(search.costs().layout());
    find_live_events();
  }

  std::span<const StageList> stages() const { return stages_; }
  /// Steps in a topological order of their tails.
  std::span<const Step> steps() const { return steps_; }

  const ChoiceTable& table(const Step& step) const {
    return stages_[step.stage].tables[step.position];
  }

  std::size_t last_step(std::size_t stage) const { return last_step_[stage]; }
  /// Returns the shortest time from an event to the end, picoseconds.
  std::int64_t tail(std::int32_t event) const { return tails_[event]; }
  /// Returns the events whose times matter to the steps from `step` on.
  std::span<const std::int32_t> live(std::size_t step) const { return live_[step]; }
  std::size_t events() const { return tails_.size(); }
  std::int32_t source() const { return network_.source; }
  std::int32_t sink() const { return network_.sink; }

  /// Returns the makespan with the longest time of every instruction.
  std::int64_t longest_makespan() const {
    EventTimes time(tails_.size(), 0);
    for (const Step& step : steps_) {
      const std::int64_t length = step.has_choice() ? table(step).longest : step.time;
      time[step.head] = std::max(time[step.head], time[step.tail] + length);
    }
    return time[sink()];
  }

 private:
  void make_stages(bool keeps_beaten) {
    const Problem& problem = costs_.layout().problem();
    stages_.resize(problem.pipeline.schedule().stages);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      StageList& stage = stages_[s];
      const auto nodes = costs_.computations(static_cast<int>(s));
      stage.nodes.assign(nodes.begin(), nodes.end());
      std::vector<int>& settings = stage.numbers;
      if (!is_free_) {
        for (const int node : nodes) {
          for (const auto& choice : costs_.choices_of(node)) settings.push_back(choice.setting);
        }
        std::ranges::sort(settings);
        settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
        stage.settings = settings.size();
      }
      for (const int node : nodes) stage.tables.push_back(table_of(node, settings, keeps_beaten));
    }
  }

  ChoiceTable table_of(int node, const std::vector<int>& settings, bool keeps_beaten) const {
    ChoiceTable table;
    const auto& choices = costs_.choices_of(node);
    for (std::size_t k = 0; k < choices.size(); ++k) {
      const auto beats = [&](const auto& other) {
        return other.time <= choices[k].time && other.cost <= choices[k].cost &&
               (other.time < choices[k].time || other.cost < choices[k].cost ||
                &other < &choices[k]);
      };
      // A slower and dearer choice pays only if it saves a change, or under a power cap.
      if (is_free_ && !keeps_beaten && std::ranges::any_of(choices, beats)) continue;
      table.choice.push_back(static_cast<int>(k));
      const auto at = std::ranges::lower_bound(settings, choices[k].setting) - settings.begin();
      table.setting.push_back(is_free_ ? 0 : static_cast<int>(at));
    }
    const std::size_t befores = is_free_ ? 1 : settings.size();
    for (std::size_t before = 0; before < befores; ++before) {
      for (const int k : table.choice) {
        const LateChange late = is_free_ ? LateChange{} : costs_.change(node, k, settings[before]);
        table.time.push_back(choices[k].time + late.time);
        table.cost.push_back(choices[k].cost + late.cost);
      }
    }
    const auto [shortest, longest] = std::ranges::minmax(table.time);
    table.shortest = shortest;
    // Whatever settings are late, no instruction takes longer than at its slowest point.
    table.longest =
        std::max(longest, std::ranges::max(choices, {}, &PointCosts::Choice::time).time);
    return table;
  }

  void make_steps(const SearchOrder& layout) {
    const Problem& problem = layout.problem();
    std::vector<std::pair<int, std::size_t>> place(problem.table.size(), {-1, 0});
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (std::size_t p = 0; p < stages_[s].nodes.size(); ++p)
        place[stages_[s].nodes[p]] = {static_cast<int>(s), p};
    }
    for (const std::int32_t u : layout.order()) {
      for (const SearchOrder::Arc& arc : layout.out(u)) {
        Step step{.tail = u, .head = arc.event, .network_arc = arc.network_arc, .time = arc.lag};
        if (arc.node >= 0) {
          std::tie(step.stage, step.position) = place[arc.node];
          const auto& choice = costs_.choices_of(arc.node).front();
          step.time = choice.time;
          step.cost = choice.cost;
        }
        steps_.push_back(step);
      }
    }
    last_step_.assign(stages_.size(), 0);
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (steps_[k].has_choice()) last_step_[steps_[k].stage] = k;
    tails_.assign(network_.nodes, 0);
    for (std::size_t k = steps_.size(); k-- > 0;) {
      const Step& step = steps_[k];
      const std::int64_t time = step.has_choice() ? table(step).shortest : step.time;
      tails_[step.tail] = std::max(tails_[step.tail], tails_[step.head] + time);
    }
  }

  void find_live_events() {
    live_.resize(steps_.size());
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      for (std::size_t v = 0; v < tails_.size(); ++v) {
        bool was_reached = false, is_needed = false;
        for (std::size_t other = 0; other < steps_.size(); ++other) {
          was_reached |= other < k && steps_[other].head == static_cast<std::int32_t>(v);
          is_needed |= other >= k && steps_[other].tail == static_cast<std::int32_t>(v);
        }
        is_needed |= static_cast<std::int32_t>(v) == sink();
        if (was_reached && is_needed) live_[k].push_back(static_cast<std::int32_t>(v));
      }
    }
  }

  const PointCosts& costs_;
  const flow::Network& network_;
  bool is_free_;
  std::vector<StageList> stages_;
  std::vector<Step> steps_;
  std::vector<std::size_t> last_step_;           // of each stage
  std::vector<std::vector<std::int32_t>> live_;  // at each step
  EventTimes tails_;
};

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNone = -1;
// Relative. A bound this close below the best plan counts as equal to it, because doubles are no
// more accurate.
constexpr double kRounding = 1e-11;
// Limits on the partial plans that are kept for comparison: per kind, and in total.
constexpr std::size_t kMostOfAKind = 1000, kMostRemembered = 400'000;

using Values = std::array<double, BranchTask::kMostFlows>;  // one per flow

/// A flow and the values that bounds need.
struct FlowBound {
  double value = 0;
  std::vector<double> flow;     ///< flow through each step
  std::vector<double> entered;  ///< flow of earlier steps into the head of each step
  /// One table for each stage: the least sum of cost and flow x time over its computations from a
  /// position on, by position, last setting of the list, and setting in force. Infinite if no
  /// choices lead there.
  std::vector<std::vector<double>> rest;
};

/// A partial plan.
struct Partial {
  EventTimes time;
  std::vector<int> setting;        ///< setting in force on each stage; -1: none chosen yet
  std::vector<int> last;           ///< setting of the last computation of each stage
  std::vector<LateSettings> late;  ///< per stage; empty if no change outlasts its instruction
  std::vector<std::int64_t> first_change, last_change;  ///< times on each stage; -1: none
  std::int64_t cost = 0;
  std::int64_t reach = 0;  ///< lower bound of the end of every completion
  Values line{};           ///< bounds of the cost at T, without the term - F T
};

class Brancher {
 public:
  Brancher(SwitchingSearch& search, const BranchTask& task)
      : search_(search),
        task_(task),
        graph_(search, task.most_power != kNever),
        stages_(graph_.stages()),
        steps_(graph_.steps()),
        best_time_(kMostMakespan) {
    limit_ = std::min({task.deadline, graph_.longest_makespan(), kMostMakespan});
    for (const auto& flow : task.flows) {
      if (bounds_.size() < BranchTask::kMostFlows) add_bound(flow);
    }
    chosen_.assign(search.costs().layout().problem().table.size(), 0);
  }

  BranchAnswer run() {
    partials_.resize(steps_.size() + 2);
    Partial& start = partials_[0];
    start.time.assign(graph_.events(), 0);
    start.setting.assign(stages_.size(), -1);
    start.last.assign(stages_.size(), -1);
    if (search_.costs().outlasts()) start.late.resize(stages_.size());
    start.first_change.assign(stages_.size(), kNone);
    start.last_change.assign(stages_.size(), kNone);
    start.reach = graph_.tail(graph_.source());
    for (std::size_t f = 0; f < bounds_.size(); ++f) {
      for (const Step& step : steps_) {
        if (step.has_choice()) continue;
        const double price = bounds_[f].flow[&step - steps_.data()];
        start.line[f] += static_cast<double>(step.cost) + price * static_cast<double>(step.time);
      }
      for (std::size_t s = 0; s < stages_.size(); ++s) start.line[f] += rest_of(f, s, 0, -1, -1);
    }
    branch(0, 0);
    return {std::move(best_), !stopped_, !stopped_ && !is_doubtful()};
  }

 private:
  static constexpr std::int64_t kMostMakespan = static_cast<std::int64_t>(kMostPicoseconds);
  struct Child {
    int last = -1;  ///< setting at the end of the stage, chosen with the first instruction
    std::size_t choice = 0;
    double rank = 0;
  };

  void add_bound(const std::vector<double>& arc_flow) {
    const Problem& problem = search_.costs().layout().problem();
    const double unit = problem.flow_unit * Seconds{1e-12} / problem.cost_unit;
    FlowBound bound;
    std::vector<double> entered(graph_.events(), 0);
    for (const Step& step : steps_) {
      const double flow = unit * arc_flow[step.network_arc];
      bound.flow.push_back(flow);
      bound.entered.push_back(entered[step.head]);
      entered[step.head] += flow;
      if (step.tail == graph_.source()) bound.value += flow;
      // Only flow that has not left the event yet counts.
      entered[step.tail] -= flow;
    }
    bound.rest.resize(stages_.size());
    for (const Step& step : steps_) {
      if (step.has_choice() && step.position == 0) set_rest(bound, step.stage);
    }
    bounds_.push_back(std::move(bound));
  }

  void set_rest(FlowBound& bound, int s) const {
    const StageList& stage = stages_[s];
    const std::size_t n = stage.settings, count = stage.nodes.size();
    std::vector<double> price(count);
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (steps_[k].stage == s) price[steps_[k].position] = bound.flow[k];
    auto& rest = bound.rest[s];
    rest.assign((count + 1) * n * n, kNever);
    for (std::size_t last = 0; last < n; ++last) rest[(count * n + last) * n + last] = 0;
    for (std::size_t p = count; p-- > 0;) {
      const ChoiceTable& choices = stage.tables[p];
      for (std::size_t before = 0; before < n; ++before) {
        for (std::size_t k = 0; k < choices.size(); ++k) {
          const std::size_t at = choices.at(before, k);
          const double value = static_cast<double>(choices.cost[at]) +
                               price[p] * static_cast<double>(choices.time[at]);
          const auto now = static_cast<std::size_t>(choices.setting[k]);
          for (std::size_t last = 0; last < n; ++last) {
            double& least = rest[(p * n + last) * n + before];
            least = std::min(least, value + rest[((p + 1) * n + last) * n + now]);
          }
        }
      }
    }
  }

  // Returns the least sum over the rest of a stage. If `last` is -1, the minimum is over all
  // settings with which the list may end and begin.
  double rest_of(std::size_t f, std::size_t s, std::size_t position, int last, int before) const {
    const auto& rest = bounds_[f].rest[s];
    const std::size_t n = stages_[s].settings;
    if (rest.empty()) return 0;
    if (last >= 0)
      return rest[(position * n + static_cast<std::size_t>(last)) * n +
                  static_cast<std::size_t>(before)];
    double least = kNever;
    for (std::size_t x = 0; x < n; ++x) least = std::min(least, rest[(position * n + x) * n + x]);
    return least;
  }

  /// Returns the bounds of a partial plan extended by step `k`.
  Values line_after(const Partial& from, std::size_t k, std::int64_t time, std::int64_t cost,
                    const Child* child) const {
    const Step& step = steps_[k];
    const auto then = static_cast<double>(from.time[step.tail] + time);
    const auto before = static_cast<double>(from.time[step.head]);
    Values line = from.line;
    for (std::size_t f = 0; f < bounds_.size(); ++f) {
      const double flow = bounds_[f].flow[k];
      const double now = std::max(then, before);
      line[f] += bounds_[f].entered[k] * (now - before) +
                 flow * (now - static_cast<double>(from.time[step.tail]));
      if (child == nullptr) {
        line[f] -= flow * static_cast<double>(time);
        continue;
      }
      const auto s = static_cast<std::size_t>(step.stage);
      const int last = child->last >= 0 ? child->last : from.last[s];
      const int setting = graph_.table(step).setting[child->choice];
      line[f] += static_cast<double>(cost) + rest_of(f, s, step.position + 1, last, setting) -
                 rest_of(f, s, step.position, from.last[s], from.setting[s]);
    }
    return line;
  }

  bool is_hopeless(std::int64_t reach, const Values& line) const {
    const bool is_least = task_.aim == BranchTask::Aim::kLeast;
    if (reach > (is_least ? limit_ : std::min(limit_, best_time_))) return true;
    for (std::size_t f = 0; f < bounds_.size(); ++f) {
      if (line[f] == kNever) return true;
      const double slope = bounds_[f].value;
      if (is_least) {
        const auto time = static_cast<double>(slope >= task_.waiting ? limit_ : reach);
        if (line[f] + (task_.waiting - slope) * time >= to_beat_) return true;
        continue;
      }
      const auto time = static_cast<double>(std::min(limit_, best_time_));
      const double cost = line[f] - slope * time;
      if (cost > task_.most_power * time) return true;
      if (reach == best_time_ && cost >= to_beat_) return true;
    }
    return false;
  }

  // Adds the children of a partial plan at a step with a choice, best first.
  void add_children(const Partial& from, std::size_t k, std::vector<Child>& children) const {
    const Step& step = steps_[k];
    const auto s = static_cast<std::size_t>(step.stage);
    const ChoiceTable& choices = graph_.table(step);
    const bool is_first = step.position == 0;
    const int first_last = is_first ? 0 : from.last[s];
    const int end_last = is_first ? static_cast<int>(stages_[s].settings) : from.last[s] + 1;
    for (int last = first_last; last < end_last; ++last) {
      const int before = is_first ? last : from.setting[s];
      for (std::size_t c = 0; c < choices.size(); ++c) {
        Child child{.last = last, .choice = c};
        const std::size_t at = choices.at(static_cast<std::size_t>(before), c);
        const Values line = line_after(from, k, choices.time[at], choices.cost[at], &child);
        const std::int64_t then = from.time[step.tail] + choices.time[at];
        const std::int64_t reach = std::max(from.reach, then + graph_.tail(step.head));
        if (is_hopeless(reach, line)) continue;
        child.rank = rank_of(reach, line);
        children.push_back(child);
      }
    }
    std::ranges::sort(children, {}, [](const Child& child) {
      return std::tuple(child.rank, child.last, child.choice);
    });
  }

  double rank_of(std::int64_t reach, const Values& line) const {
    if (task_.aim == BranchTask::Aim::kFastest) return static_cast<double>(reach);
    double most = -kNever;
    for (std::size_t f = 0; f < bounds_.size(); ++f) {
      const double slope = bounds_[f].value;
      const auto time = static_cast<double>(slope >= task_.waiting ? limit_ : reach);
      most = std::max(most, line[f] + (task_.waiting - slope) * time);
    }
    return most;
  }

  void advance(Partial& partial, std::size_t k, std::int64_t time, std::int64_t cost) const {
    const Step& step = steps_[k];
    const std::int64_t then = partial.time[step.tail] + time;
    partial.time[step.head] = std::max(partial.time[step.head], then);
    partial.cost += cost;
    partial.reach = std::max(partial.reach, then + graph_.tail(step.head));
  }

  /// Sets `to` to `from` with one more choice. Returns false if that breaks the dwell.
  bool choose(const Partial& from, std::size_t k, const Child& child, Partial& to) const {
    const Step& step = steps_[k];
    const auto s = static_cast<std::size_t>(step.stage);
    const ChoiceTable& choices = graph_.table(step);
    to = from;
    if (step.position == 0) to.setting[s] = to.last[s] = child.last;
    const auto [time, cost] = with_late_change(to, step, child);
    to.line = line_after(from, k, time, cost, &child);
    const int setting = choices.setting[child.choice];
    if (setting != to.setting[s]) {
      const std::int64_t start = from.time[step.tail];
      if (to.last_change[s] != kNone && start - to.last_change[s] < search_.min_dwell())
        return false;
      to.last_change[s] = start;
      if (to.first_change[s] == kNone) to.first_change[s] = start;
    }
    to.setting[s] = setting;
    advance(to, k, time, cost);
    return true;
  }

  /// Returns the time and cost of a choice in the state of its stage. Advances the state past it.
  std::pair<std::int64_t, std::int64_t> with_late_change(Partial& partial, const Step& step,
                                                         const Child& child) const {
    const auto s = static_cast<std::size_t>(step.stage);
    const ChoiceTable& choices = graph_.table(step);
    if (!search_.costs().outlasts()) {
      const std::size_t at = choices.at(static_cast<std::size_t>(partial.setting[s]), child.choice);
      return {choices.time[at], choices.cost[at]};
    }
    LateSettings& state = partial.late[s];
    if (step.position == 0) state = LateSettings(stages_[s].numbers[child.last]);
    const int node = stages_[s].nodes[step.position], choice = choices.choice[child.choice];
    const PointCosts::Choice& chosen = search_.costs().choices_of(node)[choice];
    const LateChange late = search_.costs().next(node, choice, state);
    return {chosen.time + late.time, chosen.cost + late.cost};
  }

  void branch(std::size_t k, std::size_t depth) {
    Partial& partial = partials_[depth];
    for (; k < steps_.size() && !steps_[k].has_choice(); ++k) {
      const Step& step = steps_[k];
      partial.line = line_after(partial, k, step.time, step.cost, nullptr);
      advance(partial, k, step.time, step.cost);
    }
    if (is_hopeless(partial.reach, partial.line)) return;
    if (k == steps_.size()) return finish(partial);
    if (stopped_ || (depth > 0 && is_beaten(partial, k))) return;
    std::vector<Child> children;
    add_children(partial, k, children);
    const Step& step = steps_[k];
    const int node = stages_[step.stage].nodes[step.position];
    for (const Child& child : children) {
      if (++looked_at_ > task_.most_steps) stopped_ = true;
      if (stopped_) return;
      if (!choose(partial, k, child, partials_[depth + 1])) continue;
      chosen_[node] = graph_.table(step).choice[child.choice];
      branch(k + 1, depth + 1);
    }
  }

  void finish(const Partial& partial) {
    const std::int64_t whole = search_.makespan(chosen_);
    if (whole < 0) return;  // breaks the dwell
    Complete plan{partial.time[graph_.sink()], static_cast<double>(partial.cost)};
    if (search_.costs().outlasts()) {
      const Complete counted =
          std::exchange(plan, {whole, static_cast<double>(search_.costs().cost(chosen_))});
      if (counted != plan && is_allowed(counted)) doubt_ = std::min(doubt_, rank_of(counted));
    }
    if (!is_allowed(plan) || rank_of(plan) >= rank_of_best()) return;
    best_time_ = plan.makespan;
    best_value_ = rank_of(plan).second;
    to_beat_ = best_value_ - kRounding * std::abs(best_value_);
    best_ = chosen_;
  }

  /// A complete plan.
  struct Complete {
    std::int64_t makespan;
    double cost;
    friend bool operator==(const Complete&, const Complete&) = default;
  };
  using Rank = std::pair<std::int64_t, double>;  // lowest for the best plan

  bool is_allowed(const Complete& plan) const {
    if (plan.makespan > limit_) return false;
    return task_.aim == BranchTask::Aim::kLeast ||
           plan.cost <= task_.most_power * static_cast<double>(plan.makespan);
  }
  Rank rank_of(const Complete& plan) const {
    if (task_.aim == BranchTask::Aim::kFastest) return {plan.makespan, plan.cost};
    return {0, plan.cost + task_.waiting * static_cast<double>(plan.makespan)};
  }
  Rank rank_of_best() const {
    return {task_.aim == BranchTask::Aim::kFastest ? best_time_ : 0, best_value_};
  }

  /// Returns true if plans may have been pruned for a plan that turned out to be worse. A dwell is
  /// checked with times that ignore the changes that are late at the beginning of a list.
  bool is_doubtful() const {
    return search_.costs().outlasts() &&
           (search_.has_dwell() || doubt_ < Rank{rank_of_best().first, to_beat_});
  }

  bool compares_equal_times() const { return search_.has_dwell() || task_.most_power != kNever; }

  /// Returns true if an earlier partial plan is at least as good in every respect; else keeps this
  /// one for comparison.
  bool is_beaten(const Partial& partial, std::size_t k) {
    std::uint64_t kind = mixed(0, static_cast<std::int64_t>(k));
    const bool equal_times = compares_equal_times();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (k <= graph_.last_step(s)) {
        kind = mixed(kind, partial.setting[s]);
        kind = mixed(kind, partial.last[s]);
      }
      if (search_.costs().outlasts()) {
        for (const LateSettings::Old& old : partial.late[s].old())
          kind = mixed(mixed(kind, old.setting), std::bit_cast<std::int64_t>(old.left));
      }
      if (!search_.has_dwell()) continue;
      kind = mixed(kind, partial.first_change[s]);
      kind = mixed(kind, partial.last_change[s]);
    }
    if (equal_times)
      for (const std::int32_t v : graph_.live(k)) kind = mixed(kind, partial.time[v]);
    auto& seen = seen_[kind];
    const std::size_t width = 1 + (equal_times ? 0 : graph_.live(k).size());
    const auto is_no_better = [&](const std::int64_t* other) {
      if (other[0] > partial.cost) return false;
      for (std::size_t i = 1; i < width; ++i)
        if (other[i] > partial.time[graph_.live(k)[i - 1]]) return false;
      return true;
    };
    for (std::size_t at = 0; at < seen.size(); at += width)
      if (is_no_better(seen.data() + at)) return true;
    if (seen.size() >= kMostOfAKind * width || remembered_ >= kMostRemembered) return false;
    ++remembered_;
    seen.push_back(partial.cost);
    for (std::size_t i = 1; i < width; ++i) seen.push_back(partial.time[graph_.live(k)[i - 1]]);
    return false;
  }

  // Two different kinds have the same hash in about one of 2^64 pairs.
  static std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U, kOther = 0xBF58476D1CE4E5B9U;
    std::uint64_t x = (hash ^ static_cast<std::uint64_t>(value)) + kOdd;
    x = (x ^ (x >> 30)) * kOther;
    x = (x ^ (x >> 27)) * kOdd;
    return x ^ (x >> 31);
  }

  SwitchingSearch& search_;
  const BranchTask& task_;
  const BranchSteps graph_;
  std::span<const StageList> stages_;
  std::span<const Step> steps_;
  std::vector<FlowBound> bounds_;
  std::int64_t limit_ = 0;
  std::vector<Partial> partials_;  // one per depth
  PointChoices chosen_, best_;
  std::int64_t best_time_;
  double best_value_ = kNever, to_beat_ = kNever;
  // The best rank by partial cost among all complete plans that are worse than their partial plans.
  std::pair<std::int64_t, double> doubt_{kMostMakespan, kNever};
  std::int64_t looked_at_ = 0;
  bool stopped_ = false;
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> seen_;
  std::size_t remembered_ = 0;
};

}  // namespace

BranchAnswer branch_and_bound(SwitchingSearch& search, const BranchTask& task) {
  return Brancher(search, task).run();
}

}  // namespace harpe::plan
