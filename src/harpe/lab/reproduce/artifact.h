#pragma once
/// \file
/// The public data of Perseus's evaluation (SOSP'24), read from a folder:
///
///   emulation/WORKLOAD_GPU.csv           profile of a tenth of the layers, 8 stages
///   emulation/published_frontiers/GPU/WORKLOAD_PRECISION_mbN.csv
///                                        its frontier for N micro-batches (time, energy)
///   emulation/published_envpipe.csv      EnvPipe's plans, for all layers and 64 GPUs
///   measured/WORKLOAD.csv                profile derived from measured runs
///   measured/constants.csv               what else an iteration takes
///   measured/measured_plans.csv          time and energy of every plan that ran
///
/// Missing files are left out of the tables. In the folders of frontiers, GPU has `_` instead of
/// `-`, and WORKLOAD may be its first part only (`bloom` for `bloom-176b`).

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::lab {

// Savings as Perseus's evaluation computes them (SOSP'24, section 6). Pure functions.

/// Time and energy of one iteration of one pipeline, over all its GPUs, including blocking.
struct IterationFigures {
  Seconds time{};
  Joules energy{};
};

/// Returns the figures of an iteration whose pipeline waits until `end`.
/// \param waiting_power  of all GPUs of the pipeline together
IterationFigures waiting_until(const IterationFigures& iteration, Seconds end, Watts waiting_power);

/// Data-parallel pipelines, one of which is a straggler.
struct StragglingJob {
  int pipelines = 1;
  double slowdown = 1;  ///< of the straggler: its iteration time over a healthy one's at all-max
  Watts waiting_power{};

  /// Returns the energy of an iteration of all pipelines.
  /// \param straggler  its plan as a healthy pipeline would run it: the slow one takes `slowdown`
  ///                   times the time and energy
  /// \param healthy    of each other pipeline; it waits until `end`
  Joules energy(const IterationFigures& straggler, const IterationFigures& healthy,
                Seconds end) const;
};

/// Returns by how many percent the energy is below the baseline's.
double saving_percent(Joules energy, Joules baseline);

/// A profile of the emulation, with its published results.
struct EmulatedWorkload {
  /// Results for one number of micro-batches.
  struct Published {
    /// Perseus's frontier, slowest first, for a tenth of the layers and one GPU per stage. Empty if
    /// missing.
    std::vector<IterationFigures> frontier = {};
    std::optional<IterationFigures> envpipe = {};  ///< on the same scale
  };
  std::string workload = {}, gpu = {};  ///< the parts of the file's name: "gpt3-175b", "a100-sxm"
  Profile profile = {};
  std::map<int, Published> published = {};  ///< by micro-batches
};

/// A workload that ran on real GPUs.
struct MeasuredWorkload {
  std::string workload = {}, gpu = {};
  Profile profile = {};
  int stages = 0, micro_batches = 0, gpus_per_stage = 1;
  Watts blocking_power{};
  std::vector<Seconds> load = {};  ///< before each forward, one per stage
  Seconds fixed_extra{};           ///< of an iteration
  std::optional<IterationFigures> all_max = {};
  std::vector<IterationFigures> perseus = {};  ///< measured plans, in the order of their numbers
};

struct Sosp24Artifact {
  std::vector<EmulatedWorkload> emulated = {};
  std::vector<MeasuredWorkload> measured = {};
  std::vector<std::string> skipped = {};  ///< profile files without a GPU in their names
};

/// Reads the folder. Reports all faults of all files, and `kInvalidInput` if it has none of them.
Result<Sosp24Artifact> read_sosp24(const std::filesystem::path& folder);

// Each function parses one file and reports all its faults:
std::vector<IterationFigures> parse_published_frontier(std::string_view text,
                                                       Diagnostics& diagnostics);
struct PublishedEnvPipe {
  std::string model = {}, device = {};
  int micro_batches = 0;
  IterationFigures figures = {};
};
std::vector<PublishedEnvPipe> parse_published_envpipe(std::string_view text,
                                                      Diagnostics& diagnostics);
/// Returns workloads without profiles and plans, which are in other files.
std::vector<MeasuredWorkload> parse_constants(std::string_view text, Diagnostics& diagnostics);
/// Adds all-max and plans to their workloads; ignores rows of other workloads.
void parse_measured_plans(std::string_view text, std::vector<MeasuredWorkload>& workloads,
                          Diagnostics& diagnostics);

}  // namespace harpe::lab
