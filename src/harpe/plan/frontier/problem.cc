#include "harpe/plan/frontier/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "harpe/plan/frontier/disjoint_sets.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/profile/stage_list.h"

namespace harpe::plan {
namespace {

// Largest iteration, well within the range of the integers.
constexpr double kMaxHorizonSeconds = 1e6;
static_assert(kMaxHorizonSeconds * 1e12 <= kMostPicoseconds);
// Bits of one value. Fewer if a sum of many values would come near 2^60.
constexpr int kMostBits = 40;
static_assert(kMostCost == std::int64_t{1} << kMostBits);
constexpr int kSumBits = 60;

using TableKey = std::tuple<int, int, InstructionKind>;  // stage, chunk, kind

/// The chunks of each stage that lack rows of one kind.
using MissingRows = std::map<int, std::set<int>>;

/// Returns text such as "stages 0 to 3", "chunk 0 of stage 3 and chunk 1 of stages 0, 2".
/// \param chunks  number of chunks per stage in the schedule
std::string places_text(const MissingRows& missing, int chunks) {
  std::map<std::set<int>, std::vector<int>> stages_lacking;
  for (const auto& [stage, lacking] : missing) stages_lacking[lacking].push_back(stage);
  std::string text;
  for (const auto& [lacking, stages] : stages_lacking) {
    if (!text.empty()) text += " and ";
    if (static_cast<int>(lacking.size()) < chunks) {
      std::string list;
      for (const int chunk : lacking) list += (list.empty() ? "" : ", ") + std::to_string(chunk);
      text += (lacking.size() == 1 ? "chunk " : "chunks ") + list + " of ";
    }
    text += stage_list(stages);
  }
  return text;
}

/// Returns advice on what to measure if a kind is missing.
std::string remedy(InstructionKind kind) {
  if (kind == InstructionKind::kWeight)
    return "; where backwards are split, in the schedule or in rows of other stages, measure the "
           "input gradient as backward, the weight gradient as weight (harpe synth "
           "--split-backward: from a model of a GPU)";
  if (kind == InstructionKind::kRecompute)
    return "; it recomputes activations: measure that by itself as recompute";
  return "";
}

Status check_options(const CharacterizeOptions& options, int stages) {
  Diagnostics diagnostics;
  const auto& power = options.blocking_power.values;
  if (power.size() != 1 && static_cast<int>(power.size()) != stages) {
    diagnostics.add("blocking power: expected one value or one for each of the " +
                    std::to_string(stages) + " stages, found " + std::to_string(power.size()));
  }
  for (const Watts p : power) {
    if (!(p.value >= 0 && p.value < 1e18)) {
      diagnostics.add("blocking power must be between 0 and 1e18 W");
      break;
    }
  }
  if (options.gpus_per_stage < 1 || options.gpus_per_stage > 1'000'000) {
    diagnostics.add("GPUs per stage must be between 1 and 1000000");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

void set_points(OptionTable& table, std::span<const OperatingPoint> points, Watts power) {
  std::vector<double> effective;
  for (const OperatingPoint& point : points) {
    table.slowest = std::max(table.slowest, point.time);
    effective.push_back(effective_energy(point, power).value);
    table.dearest = std::max(table.dearest, Joules{std::abs(effective.back())});
  }
  for (const int i : pareto_set(points, effective)) {
    table.options.push_back({points[i], Joules{effective[i]}, 0, 0});
  }
  table.all_max = all_max_point(points);
}

// Fills `table` and `tables` from the profile.
Status assign_tables(Problem& problem) {
  std::map<TableKey, int> index;
  std::vector<TableKey> keys;
  problem.table.reserve(problem.pipeline.nodes().size());
  for (const PipelineNode& node : problem.pipeline.nodes()) {
    if (node.stage <
        0) {  // a transfer: both sides draw blocking power, so that it has no effective energy
      OptionTable table;
      table.all_max.time = table.slowest = node.transfer_time;
      table.options.push_back({table.all_max, {}, 0, 0});
      table.instructions = 1;
      problem.table.push_back(static_cast<int>(problem.tables.size()));
      problem.tables.push_back(std::move(table));
      keys.emplace_back(-1, 0, InstructionKind::kSend);
      continue;
    }
    const TableKey key{node.stage, node.chunk, node.instruction.kind};
    const auto [found, added] = index.try_emplace(key, static_cast<int>(problem.tables.size()));
    if (added) {
      problem.tables.emplace_back();
      keys.push_back(key);
    }
    ++problem.tables[found->second].instructions;
    problem.table.push_back(found->second);
  }

  std::map<InstructionKind, MissingRows> missing;
  for (std::size_t t = 0; t < keys.size(); ++t) {
    OptionTable& table = problem.tables[t];
    const auto& [stage, chunk, kind] = keys[t];
    if (stage < 0) continue;
    const auto points = problem.profile.points(stage, chunk, kind);
    if (points.empty()) {
      if (is_fixed_time(kind)) {
        table.options.push_back({});
      } else {
        missing[kind][stage].insert(chunk);
      }
      continue;
    }
    set_points(table, points, problem.blocking_power[stage]);
  }
  Diagnostics diagnostics("profile");
  for (const auto& [kind, places] : missing) {
    diagnostics.add("no " + std::string(name(kind)) + " rows for " +
                    places_text(places, problem.pipeline.schedule().chunks()) +
                    ", which the schedule needs" + remedy(kind));
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

// Returns the unit, a power of two, in which values up to `largest` are below 2^bits.
double power_of_two_unit(double largest, int bits) {
  if (!(largest > 0)) return 1.0;
  return std::ldexp(1.0, std::ilogb(largest) + 1 - bits);
}

int bits_for(std::size_t summands) {
  return std::min(kMostBits, kSumBits - static_cast<int>(std::bit_width(summands)));
}

struct HullPoint {
  std::int64_t length;
  double cost;
};

// Returns the lower convex hull of a table in whole nanoseconds, slowest first.
std::vector<HullPoint> hull_of(const OptionTable& table) {
  std::vector<HullPoint> hull;
  for (std::size_t i = table.options.size(); i-- > 0;) {
    const Option& option = table.options[i];
    const HullPoint point{to_nanoseconds(option.point.time), option.effective.value};
    if (!hull.empty() && hull.back().length == point.length) continue;
    while (hull.size() > 1) {
      const HullPoint& a = hull[hull.size() - 2];
      const HullPoint& b = hull.back();
      const double slope_ab = (b.cost - a.cost) / static_cast<double>(a.length - b.length);
      const double slope_bp = (point.cost - b.cost) / static_cast<double>(b.length - point.length);
      if (slope_ab < slope_bp) break;
      hull.pop_back();
    }
    hull.push_back(point);
  }
  return hull;
}

// Returns the hull in integers. Slopes that round to the same rate are joined. A slope that rounds
// to 0 makes the slower end useless.
flow::Curve curve_of(const std::vector<HullPoint>& hull, Watts flow_unit) {
  flow::Curve curve{{hull[0].length}, {0}};
  for (std::size_t i = 1; i < hull.size(); ++i) {
    const double watts = (hull[i].cost - hull[i - 1].cost) /
                         (static_cast<double>(hull[i - 1].length - hull[i].length) * 1e-9);
    const auto rate = static_cast<std::int64_t>(std::floor(watts / flow_unit.value));
    if (rate <= curve.rate.back()) {
      curve.length.back() = hull[i].length;
    } else {
      curve.length.push_back(hull[i].length);
      curve.rate.push_back(rate);
    }
  }
  curve.rate.push_back(flow::kUnbounded);
  return curve;
}

void quantise(Problem& problem) {
  double largest_cost = 0;
  Joules dearest{0};
  double largest_slope = 0;
  std::vector<std::vector<HullPoint>> hulls;
  for (OptionTable& table : problem.tables) {
    for (const Option& option : table.options) {
      largest_cost = std::max(largest_cost, std::abs(option.effective.value));
    }
    dearest = std::max(dearest, table.dearest);
    hulls.push_back(hull_of(table));
    const auto& hull = hulls.back();
    for (std::size_t i = 1; i < hull.size(); ++i) {
      largest_slope = std::max(
          largest_slope, (hull[i].cost - hull[i - 1].cost) /
                             (static_cast<double>(hull[i - 1].length - hull[i].length) * 1e-9));
    }
  }
  // Points that others beat count, too, but may cost the others at most six of their forty bits.
  largest_cost = std::clamp(dearest.value, largest_cost, 64 * largest_cost);
  problem.cost_unit = Joules{power_of_two_unit(largest_cost, bits_for(problem.table.size()))};
  // A cut has at most one arc with a price per stage, because its instructions follow each other.
  // Flows stay below a quarter of `kUnbounded`.
  const std::size_t stages = 4 * problem.blocking_power.size();
  problem.flow_unit = Watts{power_of_two_unit(largest_slope, bits_for(stages))};
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    OptionTable& table = problem.tables[t];
    for (Option& option : table.options) {
      option.time = picoseconds(option.point.time);
      option.cost = problem.cost(option.effective);
    }
    table.curve = curve_of(hulls[t], problem.flow_unit);
    table.least_effective = table.options.back().effective;
  }
}

}  // namespace

flow::Curve curve_of(const OptionTable& table, Watts flow_unit) {
  return curve_of(hull_of(table), flow_unit);
}

std::int64_t picoseconds(Seconds time) {
  return 4 * std::llround(time.value * 0.25e12);
}

std::int64_t Problem::cost(Joules effective) const {
  // A point that others beat may cost too much for the unit.
  return std::llround(std::clamp(effective / cost_unit, -kMostCost, kMostCost));
}

bool is_implied(const Pipeline& pipeline, const Dependency& dependency) {
  const PipelineNode& from = pipeline.nodes()[dependency.from];
  const PipelineNode& to = pipeline.nodes()[dependency.to];
  return from.stage >= 0 && from.stage == to.stage && dependency.to - dependency.from > 1 &&
         !(dependency.lag > Seconds{0});
}

namespace {

class NetworkBuilder {
 public:
  explicit NetworkBuilder(Problem& problem)
      : problem_(problem),
        nodes_(static_cast<int>(problem.pipeline.nodes().size())),
        merged_(static_cast<std::size_t>(2 * nodes_ + 2)) {}

  void build() {
    merge();
    number();
    add_arcs();
  }

 private:
  int start_of(int node) const { return 2 * node; }
  int end_of(int node) const { return 2 * node + 1; }
  int source() const { return 2 * nodes_; }
  int sink() const { return 2 * nodes_ + 1; }

  void merge() {
    const auto dependencies = problem_.pipeline.dependencies();
    std::vector<int> in(nodes_, 0), out(nodes_, 0);
    for (const Dependency& d : dependencies) {
      if (is_implied(problem_.pipeline, d)) continue;
      ++in[d.to];
      ++out[d.from];
    }
    joined_.assign(dependencies.size(), false);
    for (std::size_t i = 0; i < dependencies.size(); ++i) {
      const Dependency& d = dependencies[i];
      if (is_implied(problem_.pipeline, d)) continue;
      if (to_nanoseconds(d.lag) > 0 || (in[d.to] > 1 && out[d.from] > 1)) continue;
      merged_.join(end_of(d.from), start_of(d.to));
      joined_[i] = true;
    }
    for (int i = 0; i < nodes_; ++i) {
      if (in[i] == 0) merged_.join(source(), start_of(i));
      if (out[i] == 0) merged_.join(sink(), end_of(i));
    }
  }

  // Numbers network nodes along the pipeline, so that neighbours in time are neighbours in memory.
  void number() {
    std::vector<std::int32_t> number(2 * nodes_ + 2, -1);
    flow::Network& network = problem_.network;
    const auto visit = [&](int v) {
      std::int32_t& n = number[merged_.root(v)];
      if (n < 0) n = network.nodes++;
      return n;
    };
    network.source = visit(source());
    problem_.start_node.resize(nodes_);
    problem_.end_node.resize(nodes_);
    for (const int i : problem_.pipeline.order()) {
      problem_.start_node[i] = visit(start_of(i));
      problem_.end_node[i] = visit(end_of(i));
    }
    network.sink = visit(sink());
  }

  void add_arcs() {
    flow::Network& network = problem_.network;
    for (const OptionTable& table : problem_.tables) network.curves.push_back(table.curve);
    const auto wait = static_cast<std::int32_t>(network.curves.size());
    network.curves.push_back(flow::Curve::fixed(0));
    problem_.node_arc.assign(nodes_, -1);
    for (const int i : problem_.pipeline.order()) {
      problem_.node_arc[i] = static_cast<std::int32_t>(network.arcs.size());
      network.arcs.push_back({problem_.start_node[i], problem_.end_node[i], problem_.table[i], 0});
    }
    const auto dependencies = problem_.pipeline.dependencies();
    problem_.dependency_arc.assign(dependencies.size(), -1);
    for (std::size_t i = 0; i < dependencies.size(); ++i) {
      if (joined_[i] || is_implied(problem_.pipeline, dependencies[i])) continue;
      const Dependency& d = dependencies[i];
      problem_.dependency_arc[i] = static_cast<std::int32_t>(network.arcs.size());
      network.arcs.push_back(
          {problem_.end_node[d.from], problem_.start_node[d.to], wait, -to_nanoseconds(d.lag)});
    }
  }

  Problem& problem_;
  int nodes_;
  DisjointSets merged_;
  std::vector<bool> joined_;
};

Status check_range(const Problem& problem) {
  std::vector<Seconds> slowest;
  for (const int t : problem.table) slowest.push_back(problem.tables[t].slowest);
  const Seconds makespan = problem.pipeline.earliest(slowest).makespan;
  if (makespan.value > kMaxHorizonSeconds) {
    return Error::invalid("an iteration of over " + std::to_string(kMaxHorizonSeconds) +
                          " s is beyond the solver's range");
  }
  return ok_status();
}

}  // namespace

Watts Problem::total_blocking_power() const {
  return std::accumulate(blocking_power.begin(), blocking_power.end(), Watts{0});
}

Result<Problem> make_problem(const Pipeline& pipeline, const Profile& profile,
                             const CharacterizeOptions& options) {
  const Schedule& schedule = pipeline.schedule();
  HARPE_TRY(check_stages(schedule, profile, "profile"));
  HARPE_TRY(check_options(options, schedule.stages));
  const Profile fitting = with_chunks(profile, schedule.chunks(), schedule.copies);
  Pipeline split =
      HARPE_TRY(Pipeline::build(schedule, pipeline.transfers(), PricedParts(schedule, fitting)));
  Problem problem{.pipeline = std::move(split),
                  .profile = fitting,
                  .job = options.job,
                  .blocking_power = {},
                  .gpus_per_stage = options.gpus_per_stage,
                  .tables = {},
                  .table = {},
                  .cost_unit = {},
                  .flow_unit = {},
                  .network = {},
                  .start_node = {},
                  .end_node = {},
                  .node_arc = {},
                  .dependency_arc = {}};
  for (int stage = 0; stage < schedule.stages; ++stage) {
    problem.blocking_power.push_back(options.blocking_power[stage]);
  }
  HARPE_TRY(assign_tables(problem));
  HARPE_TRY(check_range(problem));
  quantise(problem);
  NetworkBuilder(problem).build();
  return problem;
}

}  // namespace harpe::plan
