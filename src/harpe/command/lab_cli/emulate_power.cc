#include "harpe/command/lab_cli/emulate_power.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harpe/base/parquet.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::command {
namespace {

/// Rows of the largest catalogue file: about 400 MB.
constexpr std::size_t kMostRows = 10'000'000;

/// Returns a name for the run of letters, digits and '-', which needs no quotes in CSV.
std::string run_id(const EmulatedTrainingResult& result) {
  std::string id = "emulated-" + result.title + "-seed-" + std::to_string(result.shape.seed);
  for (char& letter : id) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9');
    if (!is_plain) letter = '-';
  }
  return id;
}

std::string time_text(std::size_t step, Seconds length) {
  return shortest(static_cast<double>(step) * length.value, 3);
}

std::string kilowatts(double watts) {
  return grouped(watts / 1000, 1) + " kW";
}

/// Power in each step under a name such as "node_0_w".
struct PowerColumn {
  std::string name;
  std::vector<double> watts;
};

/// Returns the power of the job by both policies, then of nodes and GPUs by Harpe's plans.
std::vector<PowerColumn> columns_of(const lab::PowerRecorder& harpe,
                                    const EmulatedTrainingResult& result) {
  std::vector<PowerColumn> columns;
  for (const EmulatedPower& power : result.power)
    columns.push_back({power.key == "harpe" ? "job_w" : "job_" + power.key + "_w", power.watts});
  for (std::size_t node = 0; node < harpe.nodes(); ++node)
    columns.push_back({"node_" + std::to_string(node) + "_w", harpe.node(node)});
  for (int p = 0; p < harpe.options().pipelines; ++p) {
    for (int stage = 0; stage < result.stages; ++stage) {
      columns.push_back(
          {"pipeline_" + std::to_string(p) + "_stage_" + std::to_string(stage) + "_gpu_w",
           harpe.gpu(static_cast<std::size_t>(p), static_cast<std::size_t>(stage))});
    }
  }
  const std::size_t steps = columns.front().watts.size();  // of both policies there are as many
  for (PowerColumn& column : columns) column.watts.resize(steps);
  return columns;
}

}  // namespace

std::vector<std::string> swings_of(const EmulatedTrainingResult& result) {
  std::vector<std::string> lines;
  for (const EmulatedPower& power : result.power) {
    const Seconds recorded{
        std::round(result.power_step.value * static_cast<double>(power.watts.size()))};
    const lab::PowerSwings& swings = power.swings;
    std::string line = "Power in the first " + duration_text(recorded) + ", " + power.name +
                       ": peak " + kilowatts(swings.peak.value) + ", lowest " +
                       kilowatts(swings.lowest.value) + ", mean " + kilowatts(swings.mean.value);
    for (const lab::PowerRamp& ramp : swings.ramps) {
      line += "; steepest over " + shortest(ramp.over.value) + " s +" + kilowatts(ramp.up) +
              "/s, -" + kilowatts(ramp.down) + "/s";
    }
    if (swings.strongest.hertz > 0) {
      line +=
          "; strongest swing from 0.1 to 20 Hz: " + kilowatts(swings.strongest.amplitude.value) +
          " up and down at " + shortest(swings.strongest.hertz, 2) + " Hz";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Json power_json(const EmulatedPower& power) {
  Json ramps = Json::array();
  for (const lab::PowerRamp& ramp : power.swings.ramps) {
    ramps.push_back(
        {{"over_s", ramp.over.value}, {"up_w_per_s", ramp.up}, {"down_w_per_s", ramp.down}});
  }
  Json strongest = nullptr;
  if (power.swings.strongest.hertz > 0) {
    strongest = {{"hertz", power.swings.strongest.hertz},
                 {"amplitude_w", power.swings.strongest.amplitude.value}};
  }
  return {{"policy", power.key},
          {"mean_w", power.swings.mean.value},
          {"peak_w", power.swings.peak.value},
          {"lowest_w", power.swings.lowest.value},
          {"ramps", std::move(ramps)},
          {"strongest_swing", std::move(strongest)}};
}

void keep_power(const lab::PowerRecorder& harpe, const lab::PowerRecorder& all_max,
                EmulatedTrainingResult& result) {
  const Seconds step = harpe.options().step;
  const Seconds whole =
      std::min({harpe.options().length, result.outcome.harpe.time, result.outcome.all_max.time});
  const auto steps = std::max<std::size_t>(1, static_cast<std::size_t>(whole / step));
  result.power_step = step;
  const auto keep = [&](const lab::PowerRecorder& recorder, const char* key, const char* name) {
    const auto watts = recorder.job().first(std::min(steps, recorder.job().size()));
    result.power.push_back({.key = key,
                            .name = name,
                            .watts = {watts.begin(), watts.end()},
                            .swings = lab::swings_of(watts, step)});
  };
  keep(harpe, "harpe", "Harpe");
  keep(all_max, "all_max", "all-max");
}

std::string power_table(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  const std::vector<PowerColumn> columns = columns_of(harpe, result);
  std::string text = "time_s";
  for (const PowerColumn& column : columns) text += ',' + column.name;
  for (std::size_t i = 0; i < columns.front().watts.size(); ++i) {
    text += '\n' + time_text(i, result.power_step);
    for (const PowerColumn& column : columns) text += ',' + shortest(column.watts[i], 1);
  }
  return text + '\n';
}

std::string power_parquet(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  const std::vector<PowerColumn> columns = columns_of(harpe, result);
  std::vector<double> times(columns.front().watts.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    times[i] = static_cast<double>(i) * result.power_step.value;
  std::vector<ParquetColumn> table = {{"time_s", times}};
  for (const PowerColumn& column : columns) table.push_back({column.name, column.watts});
  return parquet_table(table);
}

std::string power_openg2g(const EmulatedTrainingResult& result) {
  const std::vector<double>& watts = result.power.front().watts;
  std::string text = "t_s,power_W\n";
  for (std::size_t i = 0; i < watts.size(); ++i) {
    text += time_text(i, result.power_step) + ',' +
            shortest(watts[i] / static_cast<double>(result.gpus), 2) + '\n';
  }
  return text;
}

Status check_catalogue_size(const lab::PowerRecorder& harpe) {
  if (harpe.gpus() == 0) {
    return Error::invalid(
        "--power-format catalogue needs the GPUs of at least one pipeline: --power-pipelines 1");
  }
  const std::size_t rows = harpe.gpus() * harpe.job().size();
  if (rows <= kMostRows) return ok_status();
  return Error::invalid("power.csv would have " + grouped(static_cast<double>(rows), 0) +
                        " rows, more than " + grouped(static_cast<double>(kMostRows), 0) +
                        ": give a shorter --power-time or fewer --power-pipelines");
}

std::string power_catalogue(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  std::vector<std::vector<double>> gpus;
  for (std::size_t number = 0; number < harpe.gpus(); ++number)
    gpus.push_back(harpe.numbered_gpu(number));
  std::string text = "run_id,timestamp,time_relative_s,gpu_id,power_w,sm_clock_mhz\n";
  for (std::size_t i = 0; i < result.power.front().watts.size(); ++i) {
    const std::string begin = run_id(result) + ",," + time_text(i, result.power_step) + ',';
    for (std::size_t number = 0; number < gpus.size(); ++number) {
      text += begin;
      text += std::to_string(number);
      text += ',';
      text += shortest(gpus[number][i], 1);
      text += ",\n";
    }
  }
  return text;
}

std::string power_metadata(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result,
                           const PageSource& source) {
  const std::size_t steps = result.power.front().watts.size();
  const int pipelines = harpe.options().pipelines;
  Json notes = {"Emulated from a profile: no GPU was measured.",
                "Within an instruction the power is its mean. GPUs of a stage run in lockstep."};
  if (result.is_synthetic) notes.push_back(kSyntheticRemark);
  return json_text({{"run_id", run_id(result)},
                    {"emulated", true},
                    {"source_family", "Harpe emulation"},
                    {"model", result.title},
                    {"method", "training"},
                    {"policy", "Harpe"},
                    {"gpu_type", result.gpu.empty() ? Json(nullptr) : Json(result.gpu)},
                    {"gpu_count", harpe.gpus()},
                    {"gpus_of_the_job", result.gpus},
                    {"parallelism", "DP=" + std::to_string(pipelines) +
                                        ", TP=" + std::to_string(result.shape.gpus_per_stage) +
                                        ", PP=" + std::to_string(result.stages)},
                    {"data_parallel_of_the_job", result.shape.pipelines},
                    {"schedule", result.subtitle},
                    {"seed", result.shape.seed},
                    {"sampling_interval_declared_s", result.power_step.value},
                    {"duration_observed_s", static_cast<double>(steps) * result.power_step.value},
                    {"num_samples", steps * harpe.gpus()},
                    {"power_aggregation", "per_gpu"},
                    {"has_clock_telemetry", false},
                    {"logging_method", source.program},
                    {"command", source.command},
                    {"profile_is_synthetic", result.is_synthetic},
                    {"notes", std::move(notes)}});
}

}  // namespace harpe::command
