#pragma once
/// \file
/// A recurring job: the same training, repeated on data that may change. The members that do not
/// change between recurrences are what Zeus's clients register (Zeus, NSDI'23, section 4), by the
/// JSON names of Zeus's server, and Harpe's own.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {

/// The algorithm that chooses the batch sizes.
enum class BatchSizeAlgorithm : unsigned char {
  kZeus,   ///< pruning, then Gaussian Thompson sampling
  kHarpe,  ///< explores only sizes that can pay back
};

/// Knowledge from another GPU. Epochs to target do not depend on the GPU.
struct KnownEpochs {
  int batch_size = 0;
  double epochs = 0;      ///< to the target, on average
  int runs = 1;           ///< number of runs in the average
  bool converged = true;  ///< false: ended after `epochs` without reaching the target
  double epoch_cost = 0;  ///< J, on that GPU; 0 if unknown
  friend bool operator==(const KnownEpochs&, const KnownEpochs&) = default;
};

struct RecurringJob {
  static constexpr int kMostExplorations = 1000;  ///< sizes x pruning rounds

  static constexpr std::size_t kMostKnown = 64;

  std::string id;  ///< empty: the server chooses one that begins with `id_prefix`
  std::string id_prefix;
  std::vector<int> batch_sizes;  ///< rising
  int default_batch_size = 0;    ///< one of them
  double eta = 0.5;              ///< from 0 (time alone) to 1 (energy alone)
  std::optional<double> beta =
      2.0;  ///< a trial ends beyond this multiple of the least cost; nullopt: never
  double target_metric = 0.5;
  bool higher_is_better = true;  ///< of the metric
  int max_epochs = 100;
  int pruning_rounds = 2;
  int window = 0;         ///< newest results of a size that count; 0: all
  double prior_mean = 0;  ///< of a size's reward, which is its negative cost
  double prior_precision = 0;
  int explorations = 2;  ///< of each size before sampling
  std::optional<std::int64_t> seed;
  Watts max_power{};  ///< of all GPUs together
  int gpus = 0;
  std::string gpu_model;

  // Harpe's own.
  BatchSizeAlgorithm algorithm = BatchSizeAlgorithm::kZeus;
  int recurrences = 0;                    ///< expected in total; 0 if unknown
  std::vector<KnownEpochs> known_epochs;  ///< at most `kMostKnown`

  /// Returns eta * energy + (1 - eta) * max_power * time, in J (Zeus, equation 2).
  double cost(Joules energy, Seconds time) const {
    return eta * energy.value + (1 - eta) * (max_power * time).value;
  }
  /// Returns true if the target is met; never for NaN.
  bool reaches(double metric) const {
    return higher_is_better ? metric >= target_metric : metric <= target_metric;
  }

  friend bool operator==(const RecurringJob&, const RecurringJob&) = default;
};

/// Returns the JSON of Zeus's server, with Harpe's members if they are not the defaults.
std::string recurring_job_json(const RecurringJob& job);
/// Parses a job. Members may be missing as in Zeus; sizes may be in any order. Reports one error
/// for each wrong or unknown member.
Result<RecurringJob> parse_recurring_job(std::string_view text);
Result<RecurringJob> read_recurring_job(const JsonValue& document, Unknown unknown);

/// One training of a recurring job with one batch size, from the time when the size was given out.
struct Trial {
  enum class Kind : unsigned char {
    kExploration,   ///< its result is needed to know which sizes are worth trying
    kConcurrent,    ///< given out while such a result was pending
    kExploitation,  ///< chosen among the known sizes (Zeus: MAB)
  };
  enum class Status : unsigned char {
    kDispatched,
    kSucceeded,  ///< ended by its own reports, converged or not
    kFailed,     ///< given up, retracted, or silent for longer than its lease
  };

  int number = 0;  ///< from 1, within the job
  int batch_size = 0;
  Kind kind = Kind::kExploration;
  Status status = Status::kDispatched;
  Seconds begun{};
  Seconds heard{};  ///< last report; `begun` before the first
  Seconds lease{};  ///< longest silence after `heard`
  // The last reported values, since it began:
  int epochs = 0;
  Seconds time{};
  Joules energy{};
  Seconds first_time{};  ///< of `time`, in the first epoch, in which limits are profiled
  Joules first_energy{};
  bool converged = false;  ///< reached its target within its cost bound
  /// Used by Harpe's algorithm, for running trials and the newest converged ones; otherwise empty.
  MetricCurve metrics = {};

  bool has_result() const { return status == Status::kSucceeded; }
  friend bool operator==(const Trial&, const Trial&) = default;
};

/// Returns the trial without its metrics as JSON.
std::string trial_json(const Trial& trial);

}  // namespace harpe::zeus
