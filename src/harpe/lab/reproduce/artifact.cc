#include "harpe/lab/reproduce/artifact.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/file.h"

namespace harpe::lab {
namespace {

// Figures for all layers and 64 GPUs relative to a tenth of the layers and one GPU per stage.
constexpr double kTimeScale = 10, kEnergyScale = 80;
constexpr double kMostStages = 1024;

/// Diagnostics of all files.
using Faults = std::vector<Diagnostic>;

void add_to(Faults& faults, std::vector<Diagnostic> of_file) {
  std::ranges::move(of_file, std::back_inserter(faults));
}

/// Reads a file of the artifact if it exists.
/// \param parse  called with the text and the diagnostics of this file
template <class Parse>
void read_part(const std::filesystem::path& path, Faults& faults, Parse parse) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return;
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return add_to(faults, text.error().diagnostics);
  Diagnostics diagnostics(path.string());
  parse(*text, diagnostics);
  add_to(faults, diagnostics.take());
}

std::vector<std::filesystem::path> csv_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    if (entry.is_regular_file(missing) && entry.path().extension() == ".csv")
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Returns true if `name` in a published file means this workload: "bloom" is "bloom-176b".
bool means(const std::string& name, const std::string& workload) {
  return !name.empty() && (workload == name || workload.starts_with(name + '-'));
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

/// Reads the name of a workload's file, such as "gpt3-175b_bf16_mb96.csv".
/// \returns  its micro-batches; nullopt for another workload's file
std::optional<int> micro_batches_of(const std::filesystem::path& file,
                                    const std::string& workload) {
  const std::string stem = file.stem().string();
  const std::size_t mark = stem.rfind("_mb");
  if (mark == std::string::npos || !means(stem.substr(0, stem.find('_')), workload))
    return std::nullopt;
  const auto count = parse_integer(stem.substr(mark + 3));
  if (!count || *count < 1 || *count > 100'000) return std::nullopt;
  return static_cast<int>(*count);
}

void read_frontiers(const std::filesystem::path& folder, EmulatedWorkload& workload,
                    Faults& faults) {
  std::string gpu = workload.gpu;
  std::ranges::replace(gpu, '-', '_');
  for (const auto& file : csv_files(folder / "published_frontiers" / gpu)) {
    const auto count = micro_batches_of(file, workload.workload);
    if (!count) continue;
    read_part(file, faults, [&](std::string_view text, Diagnostics& own) {
      workload.published[*count].frontier = parse_published_frontier(text, own);
    });
  }
}

void read_emulation(const std::filesystem::path& folder, Sosp24Artifact& artifact, Faults& faults) {
  for (const auto& file : csv_files(folder)) {
    const std::string stem = file.stem().string();
    const std::size_t between = stem.rfind('_');
    if (stem.starts_with("published")) continue;
    if (between == std::string::npos) {
      artifact.skipped.push_back(file.string());
      continue;
    }
    Result<Profile> profile = read_profile(file);
    if (!profile.ok()) {
      add_to(faults, profile.error().diagnostics);
      continue;
    }
    EmulatedWorkload workload{.workload = stem.substr(0, between),
                              .gpu = stem.substr(between + 1),
                              .profile = std::move(*profile)};
    read_frontiers(folder, workload, faults);
    artifact.emulated.push_back(std::move(workload));
  }
  read_part(folder / "published_envpipe.csv", faults, [&](std::string_view text, Diagnostics& own) {
    for (const PublishedEnvPipe& one : parse_published_envpipe(text, own))
      for (EmulatedWorkload& workload : artifact.emulated)
        if (means(one.model, workload.workload) && with_dashes(one.device) == workload.gpu)
          workload.published[one.micro_batches].envpipe = one.figures;
  });
}

void read_measured(const std::filesystem::path& folder, Sosp24Artifact& artifact, Faults& faults) {
  std::vector<MeasuredWorkload> named;
  read_part(folder / "constants.csv", faults,
            [&](std::string_view text, Diagnostics& own) { named = parse_constants(text, own); });
  for (MeasuredWorkload& workload : named) {
    const std::filesystem::path file = folder / (workload.workload + ".csv");
    std::error_code missing;
    if (!std::filesystem::exists(file, missing)) continue;
    Result<Profile> profile = read_profile(file);
    if (!profile.ok()) {
      add_to(faults, profile.error().diagnostics);
      continue;
    }
    workload.profile = std::move(*profile);
    artifact.measured.push_back(std::move(workload));
  }
  read_part(folder / "measured_plans.csv", faults, [&](std::string_view text, Diagnostics& own) {
    parse_measured_plans(text, artifact.measured, own);
  });
}

/// Parses "0.00967 0.00001 0.00002 0.00749", one time per stage.
std::vector<Seconds> times_of(CsvTable& table, std::size_t column, int stages) {
  std::vector<Seconds> times;
  std::istringstream words(table.text(column));
  for (std::string word; words >> word;) {
    const auto value = parse_number(word);
    if (!value || *value < 0) {
      table.refuse(column, "expected times from 0");
      return {};
    }
    times.push_back({*value});
  }
  if (!times.empty() && times.size() != static_cast<std::size_t>(stages)) {
    table.refuse(column, "expected one time for each of " + std::to_string(stages) + " stages");
    return {};
  }
  return times;
}

IterationFigures figures_of(CsvTable& table, std::size_t time, std::size_t energy) {
  constexpr double kLeast = 1e-9;  // above 0
  return {{table.number(time, kLeast)}, {table.number(energy, kLeast)}};
}

}  // namespace

std::vector<IterationFigures> parse_published_frontier(std::string_view text,
                                                       Diagnostics& diagnostics) {
  constexpr std::array kColumns = {"time", "energy"};
  std::vector<IterationFigures> points;
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] { points.push_back(figures_of(table, 0, 1)); });
  if (diagnostics.empty() && points.empty()) diagnostics.add("it has no point");
  return points;
}

std::vector<PublishedEnvPipe> parse_published_envpipe(std::string_view text,
                                                      Diagnostics& diagnostics) {
  constexpr std::array kColumns = {"model", "device", "num_microbatches", "iteration_time",
                                   "energy"};
  std::vector<PublishedEnvPipe> plans;
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const IterationFigures whole = figures_of(table, 3, 4);
    plans.push_back({.model = table.text(0),
                     .device = table.text(1),
                     .micro_batches = table.count(2),
                     .figures = {whole.time / kTimeScale, whole.energy / kEnergyScale}});
  });
  return plans;
}

std::vector<MeasuredWorkload> parse_constants(std::string_view text, Diagnostics& diagnostics) {
  constexpr std::array kColumns = {"folder",        "workload",        "stages",
                                   "microbatches",  "gpus_per_stage",  "p_blocking_w",
                                   "fixed_extra_s", "load_s_per_stage"};
  std::vector<MeasuredWorkload> workloads;
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    MeasuredWorkload workload{.workload = table.text(1), .gpu = table.text(0)};
    workload.stages = table.count(2);
    if (workload.stages > kMostStages) table.refuse(2, "expected at most 1024 stages");
    workload.micro_batches = table.count(3);
    workload.gpus_per_stage = table.count(4);
    workload.blocking_power = {table.number(5, 0)};
    workload.fixed_extra = {table.number(6, 0)};
    workload.load = times_of(table, 7, workload.stages);
    // The name becomes a file name.
    if (workload.workload.empty() || workload.workload.find('/') != std::string::npos)
      table.refuse(1, "expected the name of a workload");
    workloads.push_back(std::move(workload));
  });
  return workloads;
}

void parse_measured_plans(std::string_view text, std::vector<MeasuredWorkload>& workloads,
                          Diagnostics& diagnostics) {
  constexpr std::array kColumns = {"gpu", "workload", "measured_time_s", "measured_energy_j",
                                   "kind"};
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const auto workload = std::ranges::find_if(workloads, [&](const MeasuredWorkload& one) {
      return one.gpu == table.text(0) && one.workload == table.text(1);
    });
    if (workload == workloads.end()) return;
    const IterationFigures figures = figures_of(table, 2, 3);
    const std::string& kind = table.text(4);
    if (kind.starts_with("zeus_global")) workload->all_max = figures;
    if (kind == "perseus") workload->perseus.push_back(figures);
  });
}

Result<Sosp24Artifact> read_sosp24(const std::filesystem::path& folder) {
  Sosp24Artifact artifact;
  Faults faults;
  read_emulation(folder / "emulation", artifact, faults);
  read_measured(folder / "measured", artifact, faults);
  if (!faults.empty()) return Error{ErrorCode::kInvalidInput, std::move(faults)};
  if (artifact.emulated.empty() && artifact.measured.empty())
    return Error::invalid(folder.string() +
                          ": has neither profiles emulation/WORKLOAD_GPU.csv nor measured runs "
                          "measured/WORKLOAD.csv with measured/constants.csv");
  return artifact;
}

IterationFigures waiting_until(const IterationFigures& iteration, Seconds end,
                               Watts waiting_power) {
  return {end, iteration.energy + waiting_power * (end - iteration.time)};
}

Joules StragglingJob::energy(const IterationFigures& straggler, const IterationFigures& healthy,
                             Seconds end) const {
  return straggler.energy * slowdown +
         waiting_until(healthy, end, waiting_power).energy * (pipelines - 1);
}

double saving_percent(Joules energy, Joules baseline) {
  return 100 * (1 - energy / baseline);
}

}  // namespace harpe::lab
