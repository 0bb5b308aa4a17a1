#include "harpe/plan/profile/profile.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

auto key(const InstructionProfile& entry) {
  return std::tuple(entry.stage, entry.chunk, entry.kind);
}

/// Returns `comment` as `#` lines that no reader can parse as rows.
std::string comment_lines(std::string_view comment) {
  std::string lines;
  while (!comment.empty()) {
    const std::size_t end = std::min(comment.find('\n'), comment.size());
    lines += "# ";
    for (const char c : comment.substr(0, end)) lines += is_control(c) ? ' ' : c;
    lines += '\n';
    comment.remove_prefix(std::min(end + 1, comment.size()));
  }
  return lines;
}

/// The optional columns for those knobs that some point has.
class KnobColumns {
 public:
  explicit KnobColumns(const Profile& profile) {
    for (const InstructionProfile& entry : profile.entries()) {
      for (const OperatingPoint& point : entry.points) {
        memory_clock_ |= point.knobs.memory_clock != Megahertz{0};
        power_limit_ |= point.knobs.power_limit != Watts{0};
        label_ |= !point.knobs.label.empty();
      }
    }
  }

  std::string header() const {
    return std::string(memory_clock_ ? ",memory_frequency" : "") +
           (power_limit_ ? ",power_limit" : "") + (label_ ? ",label" : "");
  }

  std::string cells(const Knobs& knobs) const {
    std::string text;
    if (memory_clock_) text += ',';
    if (knobs.memory_clock != Megahertz{0}) text += std::to_string(knobs.memory_clock.value);
    if (power_limit_) text += ',';
    if (knobs.power_limit != Watts{0}) text += shortest(knobs.power_limit.value);
    if (label_) text += ',';
    return text.append(knobs.label.text());
  }

 private:
  bool memory_clock_ = false, power_limit_ = false, label_ = false;
};

}  // namespace

Profile::Profile(std::vector<InstructionProfile> entries, bool has_chunks)
    : entries_(std::move(entries)), has_chunks_(has_chunks) {
  std::sort(entries_.begin(), entries_.end(),
            [](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto twice =
      std::adjacent_find(entries_.begin(), entries_.end(),
                         [](const auto& a, const auto& b) { return key(a) == key(b); });
  HARPE_CHECK(twice == entries_.end(), "a profile has one entry for a stage, chunk and kind");
  for (InstructionProfile& entry : entries_) {
    HARPE_CHECK(!entry.points.empty(), "an entry of a profile has a point");
    std::sort(entry.points.begin(), entry.points.end(),
              [](const auto& a, const auto& b) { return a.setting() < b.setting(); });
    stages_ = std::max(stages_, entry.stage + 1);
  }
}

Profile Profile::with_entries(std::vector<InstructionProfile> entries) const {
  Profile profile(std::move(entries), has_chunks_);
  profile.is_synthetic_ = is_synthetic_;
  return profile;
}

std::span<const OperatingPoint> Profile::points(int stage, int chunk, InstructionKind kind) const {
  const auto wanted = std::tuple(stage, has_chunks_ ? chunk : 0, kind);
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), wanted,
                       [](const auto& entry, const auto& k) { return key(entry) < k; });
  if (found == entries_.end() || key(*found) != wanted) return {};
  return found->points;
}

std::string profile_csv(const Profile& profile, std::string_view comment) {
  std::string csv =
      profile.is_synthetic() ? comment_lines("Synthetic profile, not measured on real GPUs") : "";
  csv += comment_lines(comment);
  const KnobColumns columns(profile);
  csv += profile.has_chunks() ? "stage,chunk,instruction,frequency" : "stage,instruction,frequency";
  csv += columns.header() + ",time,energy\n";
  for (const InstructionProfile& entry : profile.entries()) {
    std::string place = std::to_string(entry.stage) + ',';
    if (profile.has_chunks()) place += std::to_string(entry.chunk) + ',';
    place.append(name(entry.kind)) += ',';
    for (const OperatingPoint& point : entry.points) {
      csv += place;
      if (point.clock.value != 0) csv += std::to_string(point.clock.value);
      csv += columns.cells(point.knobs) + ',' + shortest(point.time.value) + ',' +
             shortest(point.energy.value) + '\n';
    }
  }
  return csv;
}

namespace {

/// Returns the first point at `setting` or after it.
auto first_from(std::span<const OperatingPoint> points, const InstructionSetting& setting) {
  return std::lower_bound(points.begin(), points.end(), setting,
                          [](const OperatingPoint& p, const InstructionSetting& wanted) {
                            return p.clock != wanted.clock ? p.clock < wanted.clock
                                                           : p.knobs < wanted.knobs;
                          });
}

}  // namespace

NearestPoints nearest_points(std::span<const OperatingPoint> points,
                             const InstructionSetting& setting) {
  const auto found = first_from(points, setting);
  if (found != points.end() && found->setting() == setting) return {&*found, &*found};
  const auto same_knobs = [&](const OperatingPoint& p) { return p.knobs == setting.knobs; };
  NearestPoints nearest;
  if (const auto above = std::find_if(found, points.end(), same_knobs); above != points.end()) {
    nearest.above = &*above;
  }
  const auto below = std::find_if(std::make_reverse_iterator(found), points.rend(), same_knobs);
  if (below != points.rend()) nearest.below = &*below;
  return nearest;
}

const OperatingPoint* find_point(std::span<const OperatingPoint> points,
                                 const InstructionSetting& setting) {
  const auto found = first_from(points, setting);
  return found != points.end() && found->setting() == setting ? &*found : nullptr;
}

const OperatingPoint& all_max_point(std::span<const OperatingPoint> points) {
  HARPE_CHECK(!points.empty(), "an instruction has a point");
  const Megahertz highest = points.back().clock;
  const auto first = std::ranges::lower_bound(points, highest, {}, &OperatingPoint::clock);
  if (first->knobs.empty()) return *first;
  return *std::min_element(first, points.end(),
                           [](const auto& a, const auto& b) { return a.time < b.time; });
}

std::vector<int> pareto_set(std::span<const OperatingPoint> points, std::span<const double> cost) {
  HARPE_CHECK(points.size() == cost.size(), "every point has a cost");
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<int> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  // NaN has no order: such points would break the sort, and they beat no other point.
  std::erase_if(order, [&](int i) {
    return std::isnan(points[at(i)].time.value) || std::isnan(cost[at(i)]);
  });
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tuple(points[at(a)].time.value, cost[at(a)], a) <
           std::tuple(points[at(b)].time.value, cost[at(b)], b);
  });
  std::vector<int> pareto;
  for (const int i : order) {
    if (pareto.empty() || cost[at(i)] < cost[at(pareto.back())]) pareto.push_back(i);
  }
  return pareto;
}

}  // namespace harpe
