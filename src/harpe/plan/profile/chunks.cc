#include "harpe/plan/profile/chunks.h"

#include <algorithm>
#include <utility>

namespace harpe::plan {
namespace {

int chunks_of(const Profile& profile) {
  int chunks = 1;
  for (const InstructionProfile& entry : profile.entries()) {
    if (!is_fixed_time(entry.kind)) chunks = std::max(chunks, entry.chunk + 1);
  }
  return chunks;
}

bool fits(const Profile& profile, int chunks, int copies) {
  if (profile.has_chunks()) return chunks_of(profile) == chunks;
  return chunks <= copies;  // each part is a whole stage of its model
}

/// Returns the points summed over the chunks; empty if a chunk lacks rows.
std::vector<OperatingPoint> sum_of_chunks(const Profile& profile, int stage, InstructionKind kind,
                                          int chunks) {
  std::vector<std::span<const OperatingPoint>> rows;
  for (int chunk = 0; chunk < chunks; ++chunk) rows.push_back(profile.points(stage, chunk, kind));
  return points_in_a_row(rows);
}

}  // namespace

std::vector<OperatingPoint> points_in_a_row(
    const std::vector<std::span<const OperatingPoint>>& rows) {
  std::vector<OperatingPoint> sum(rows.front().begin(), rows.front().end());
  for (const auto points : std::span(rows).subspan(1)) {
    std::erase_if(sum, [&](OperatingPoint& total) {
      const OperatingPoint* const point = find_point(points, total.setting());
      if (point == nullptr) return true;
      total.time += point->time;
      total.energy += point->energy;
      return false;
    });
  }
  return sum;
}

Profile with_chunks(const Profile& profile, int chunks, int copies) {
  if (fits(profile, chunks, copies)) return profile;
  const int measured = profile.has_chunks() ? chunks_of(profile) : 1;
  const double share = static_cast<double>(std::max(copies, 1)) / std::max(chunks, 1);
  std::vector<InstructionProfile> entries;
  for (const InstructionProfile& entry : profile.entries()) {
    if (entry.chunk > 0) continue;  // counted with chunk 0
    const bool is_fixed = is_fixed_time(entry.kind);
    std::vector<OperatingPoint> points =
        is_fixed ? entry.points : sum_of_chunks(profile, entry.stage, entry.kind, measured);
    if (points.empty()) continue;
    for (OperatingPoint& point : points) {
      if (is_fixed) break;
      point.time = point.time * share;
      point.energy = point.energy * share;
    }
    for (int chunk = 0; chunk < chunks; ++chunk)
      entries.push_back({entry.stage, chunk, entry.kind, points});
  }
  Profile changed(std::move(entries), true);
  if (profile.is_synthetic()) changed.mark_synthetic();
  return changed;
}

std::optional<std::string> note_on_chunks(const Profile& profile, int chunks, int copies) {
  if (fits(profile, chunks, copies)) return std::nullopt;
  const int each = chunks / std::max(copies, 1);
  const std::string shares = "each of its " + std::to_string(each) + " chunks takes an equal share";
  if (!profile.has_chunks())
    return "the profile has no column 'chunk': its rows hold for a whole stage, and " + shares;
  return "the profile has rows for " + std::to_string(chunks_of(profile)) +
         " chunks a stage: a stage counts as their sum" + (each > 1 ? ", and " + shares : "");
}

}  // namespace harpe::plan
