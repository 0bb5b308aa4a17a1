#pragma once
/// \file
/// What every instruction of a training pipeline costs at each setting, as measured.
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

/// A setting with the measured time and energy (per GPU) of one instruction with it.
struct OperatingPoint {
  Megahertz clock;
  Seconds time;
  Joules energy;
  Knobs knobs = {};

  InstructionSetting setting() const { return {clock, knobs}; }
  friend bool operator==(const OperatingPoint&, const OperatingPoint&) = default;
};

/// All operating points of one kind of instruction on one chunk of one stage, by rising clock, at
/// one clock by knobs, one point a setting. At least one point; nothing is assumed about how time
/// and energy move with the clock.
struct InstructionProfile {
  int stage = 0;
  int chunk = 0;
  InstructionKind kind = InstructionKind::kForward;
  std::vector<OperatingPoint> points;
};

/// The profile of a pipeline: instruction profiles ordered by (stage, chunk, kind).
class Profile {
 public:
  /// `entries` in any order, each with a point; no two with the same (stage, chunk, kind): either
  /// ends the program.
  explicit Profile(std::vector<InstructionProfile> entries, bool has_chunks = false);
  Profile() = default;
  /// The same profile with other entries: what made it and whether it has chunks stay.
  Profile with_entries(std::vector<InstructionProfile> entries) const;

  std::span<const InstructionProfile> entries() const { return entries_; }

  /// Returns the operating points of an instruction, empty if the profile lacks it. A profile
  /// without chunks returns those of the whole stage for each chunk, see `with_chunks`.
  std::span<const OperatingPoint> points(int stage, int chunk, InstructionKind kind) const;

  /// Number of stages: highest stage + 1.
  int stages() const { return stages_; }
  bool has_chunks() const { return has_chunks_; }

  /// Whether it was not measured on real GPUs, but computed from a model or measured on simulated
  /// ones. Everything made from it says so: `kSyntheticRemark`.
  bool is_synthetic() const { return is_synthetic_; }
  void mark_synthetic() { is_synthetic_ = true; }

 private:
  std::vector<InstructionProfile> entries_;
  int stages_ = 0;
  bool has_chunks_ = false;
  bool is_synthetic_ = false;
};

/// For people, wherever figures of a synthetic profile are shown.
inline constexpr std::string_view kSyntheticRemark =
    "Synthetic profile: times and energies come from a model of a GPU, not from measurements of a "
    "real one.";

/// Reads `stage,instruction,frequency,time,energy` (seconds, joules per GPU, MHz) with optional
/// columns `memory_frequency,power_limit,label,chunk,rank,dp_rank,pp_rank,tp_rank` in any order;
/// `configuration` is another name of `label`. `#` comments, CRLF and BOM are accepted. Rows of
/// several ranks for one (stage, chunk, instruction, setting) are averaged: the longest time, the
/// mean energy per GPU. The same row twice for one rank is an error. Fixed-time kinds need one row
/// a stage and may leave `frequency` empty. All errors are reported together, each with line and
/// column. A comment line that begins with "Synthetic profile", in upper or
/// lower case, makes it synthetic.
Result<Profile> parse_profile(std::string_view text, const std::string& file);
Result<Profile> read_profile(const std::filesystem::path& path);

/// The CSV of a profile, readable by `parse_profile` without loss. One that is synthetic says so in
/// its first line.
std::string profile_csv(const Profile& profile, std::string_view comment = {});

/// The points at `setting`, or, where it was not measured, next to it among the points with its
/// knobs: at the nearest clock below and above. Null where there is none. O(log points), more where
/// points with other knobs lie between.
struct NearestPoints {
  const OperatingPoint* below = nullptr;
  const OperatingPoint* above = nullptr;  ///< the same as `below` where `setting` was measured
};
NearestPoints nearest_points(std::span<const OperatingPoint> points,
                             const InstructionSetting& setting);

/// The point at `setting`; null where it was not measured.
const OperatingPoint* find_point(std::span<const OperatingPoint> points,
                                 const InstructionSetting& setting);

/// What all-max, the baseline of all savings, runs an instruction with: its highest clock, with no
/// knobs given where that was measured, else with those that are fastest at that clock.
/// \pre there is a point
const OperatingPoint& all_max_point(std::span<const OperatingPoint> points);

/// Points that no other beats in both time and cost, fastest first: time strictly rising, cost
/// strictly falling.
/// \param cost  cost of each point, the same length as `points` (for planning: effective energy).
/// Returned are indices into `points`. O(n log n).
std::vector<int> pareto_set(std::span<const OperatingPoint> points, std::span<const double> cost);

/// Effective energy: energy minus blocking power times time.
constexpr Joules effective_energy(const OperatingPoint& point, Watts blocking_power) {
  return point.energy - blocking_power * point.time;
}

}  // namespace harpe
