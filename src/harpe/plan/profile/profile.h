#pragma once
/// \file
/// The profile of a training pipeline: measured times and energies of its instructions by setting.
///
///   const harpe::Result<harpe::Profile> profile = harpe::read_profile("profile.csv");
///   if (!profile.ok()) return fail(profile.error().text());
///   for (const auto& point : profile->points(stage, chunk, harpe::InstructionKind::kForward)) {
///     std::printf("%d MHz: %g s\n", point.clock.value, point.time.value);
///   }

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe {

/// A setting with the measured time and energy (per GPU) of one instruction at this setting.
struct OperatingPoint {
  Megahertz clock;
  Seconds time;
  Joules energy;
  Knobs knobs = {};

  InstructionSetting setting() const { return {clock, knobs}; }
  friend bool operator==(const OperatingPoint&, const OperatingPoint&) = default;
};

/// All operating points of one kind of instruction on one chunk of one stage, sorted by clock, then
/// by knobs; at least one point, and one point per setting. Time and energy may vary with the clock
/// in any way.
struct InstructionProfile {
  int stage = 0;
  int chunk = 0;
  InstructionKind kind = InstructionKind::kForward;
  std::vector<OperatingPoint> points;
};

/// The profile of a pipeline: instruction profiles ordered by (stage, chunk, kind).
class Profile {
 public:
  /// \pre `entries`, in any order, have at least one point each and distinct (stage, chunk, kind);
  /// otherwise the program ends.
  explicit Profile(std::vector<InstructionProfile> entries, bool has_chunks = false);
  Profile() = default;
  /// Returns this profile with other entries; `is_synthetic` and `has_chunks` stay the same.
  Profile with_entries(std::vector<InstructionProfile> entries) const;

  std::span<const InstructionProfile> entries() const { return entries_; }

  /// Returns the operating points of an instruction; empty if the profile lacks it. For a profile
  /// without chunks, returns the points of the whole stage for each chunk, see `with_chunks`.
  std::span<const OperatingPoint> points(int stage, int chunk, InstructionKind kind) const;

  /// Returns the number of stages: highest stage + 1.
  int stages() const { return stages_; }
  bool has_chunks() const { return has_chunks_; }

  /// Returns true if the profile was computed from a model or measured on simulated GPUs instead of
  /// real ones. All output made from it contains `kSyntheticRemark`.
  bool is_synthetic() const { return is_synthetic_; }
  void mark_synthetic() { is_synthetic_ = true; }

 private:
  std::vector<InstructionProfile> entries_;
  int stages_ = 0;
  bool has_chunks_ = false;
  bool is_synthetic_ = false;
};

/// Remark for people, shown wherever figures of a synthetic profile are shown.
inline constexpr std::string_view kSyntheticRemark =
    "Synthetic profile: times and energies come from a model of a GPU, not from measurements of a "
    "real one.";

/// Reads `stage,instruction,frequency,time,energy` (seconds, joules per GPU, MHz) with optional
/// columns `memory_frequency,power_limit,label,chunk,rank,dp_rank,pp_rank,tp_rank` in any order;
/// `configuration` is another name for `label`. `#` comments, CRLF and BOM are accepted. Rows of
/// several ranks for one (stage, chunk, instruction, setting) are merged: the longest time, the
/// mean energy per GPU. Two rows for the same rank and setting are an error. Fixed-time kinds need
/// one row per stage and may leave `frequency` empty. All errors are reported together, each with
/// line and column. A comment line that begins with "Synthetic profile", in any case, marks the
/// profile as synthetic.
Result<Profile> parse_profile(std::string_view text, const std::string& file);
Result<Profile> read_profile(const std::filesystem::path& path);

/// Returns the CSV of a profile, which `parse_profile` reads without loss. The first line of the
/// CSV of a synthetic profile marks it as synthetic.
std::string profile_csv(const Profile& profile, std::string_view comment = {});

/// The point at `setting` or, if it was not measured, the points with its knobs at the nearest
/// clock below and above; null if there is none. O(log points + points with other knobs between).
struct NearestPoints {
  const OperatingPoint* below = nullptr;
  const OperatingPoint* above = nullptr;  ///< equal to `below` if `setting` was measured
};
NearestPoints nearest_points(std::span<const OperatingPoint> points,
                             const InstructionSetting& setting);

/// Returns the point at `setting`; null if it was not measured.
const OperatingPoint* find_point(std::span<const OperatingPoint> points,
                                 const InstructionSetting& setting);

/// Returns the operating point of all-max, the baseline of all savings: the highest clock, without
/// knobs if this was measured, else with the knobs that are fastest at that clock.
/// \pre there is a point
const OperatingPoint& all_max_point(std::span<const OperatingPoint> points);

/// Returns the indices of the points that no other point beats in both time and cost, fastest
/// first: time strictly rises, cost strictly falls. O(n log n).
/// \param cost  cost of each point, the same length as `points` (for planning: effective energy)
std::vector<int> pareto_set(std::span<const OperatingPoint> points, std::span<const double> cost);

/// Returns the effective energy: energy minus blocking power times time.
constexpr Joules effective_energy(const OperatingPoint& point, Watts blocking_power) {
  return point.energy - blocking_power * point.time;
}

}  // namespace harpe
