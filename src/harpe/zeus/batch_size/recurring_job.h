#pragma once
/// \file
/// A job that recurs: the same training, again and again, on data that may change. What stays the
/// same between its recurrences, as Zeus's clients register it (Zeus, NSDI'23, section 4; the names
/// of members in JSON are those of Zeus's server), and what Harpe asks beside it.

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

/// Who chooses the batch sizes.
enum class BatchSizeAlgorithm : unsigned char {
  kZeus,   ///< pruning, then Gaussian Thompson sampling
  kHarpe,  ///< explores only what can pay back
};

/// What was learned elsewhere, on another GPU: epochs to target do not depend on it.
struct KnownEpochs {
  int batch_size = 0;
  double epochs = 0;      ///< to the target, on average
  int runs = 1;           ///< that is the average of
  bool converged = true;  ///< false: ended after so many epochs, without reaching the target
  double epoch_cost = 0;  ///< J, on that GPU; 0: not known
  friend bool operator==(const KnownEpochs&, const KnownEpochs&) = default;
};

struct RecurringJob {
  static constexpr int kMostExplorations = 1000;  ///< sizes x pruning rounds

  static constexpr std::size_t kMostKnown = 64;

  std::string id;  ///< empty: the server chooses one that begins with `id_prefix`
  std::string id_prefix;
  std::vector<int> batch_sizes;  ///< rising
  int default_batch_size = 0;    ///< one of them
  double eta = 0.5;              ///< 0: time alone counts, 1: energy alone
  std::optional<double> beta =
      2.0;  ///< a trial ends beyond so many times the least cost; none: never
  double target_metric = 0.5;
  bool higher_is_better = true;  ///< of the metric
  int max_epochs = 100;
  int pruning_rounds = 2;
  int window = 0;         ///< newest results of a size that count; 0: all
  double prior_mean = 0;  ///< of a size's reward, which is its cost, negative
  double prior_precision = 0;
  int explorations = 2;  ///< of each size before sampling
  std::optional<std::int64_t> seed;
  Watts max_power{};  ///< of all GPUs together
  int gpus = 0;
  std::string gpu_model;

  // Harpe's own.
  BatchSizeAlgorithm algorithm = BatchSizeAlgorithm::kZeus;
  int recurrences = 0;                    ///< that are expected in all; 0: not known
  std::vector<KnownEpochs> known_epochs;  ///< at most `kMostKnown`

  /// eta * energy + (1 - eta) * max_power * time, in J (Zeus, equation 2).
  double cost(Joules energy, Seconds time) const {
    return eta * energy.value + (1 - eta) * (max_power * time).value;
  }
  /// Whether the target is met; NaN never is.
  bool reaches(double metric) const {
    return higher_is_better ? metric >= target_metric : metric <= target_metric;
  }

  friend bool operator==(const RecurringJob&, const RecurringJob&) = default;
};

/// As Zeus's server writes it, with Harpe's members where they are not the defaults.
std::string recurring_job_json(const RecurringJob& job);
/// Members may be left out as in Zeus; sizes may be in any order. Every member that is wrong, or is
/// not known, is one error.
Result<RecurringJob> parse_recurring_job(std::string_view text);
Result<RecurringJob> read_recurring_job(const JsonValue& document, Unknown unknown);

/// One training of a recurring job with one batch size, from the moment the size was given out.
struct Trial {
  enum class Kind : unsigned char {
    kExploration,   ///< its result is needed to know which sizes are worth trying
    kConcurrent,    ///< given out while such a result was still missing
    kExploitation,  ///< chosen among those that are known (Zeus: MAB)
  };
  enum class Status : unsigned char {
    kDispatched,
    kSucceeded,  ///< it came to an end by its own reports, whether or not it converged
    kFailed,     ///< given up, taken back, or not heard of while its lease lasted
  };

  int number = 0;  ///< from 1, within the job
  int batch_size = 0;
  Kind kind = Kind::kExploration;
  Status status = Status::kDispatched;
  Seconds begun{};
  Seconds heard{};  ///< last report; `begun` before the first
  Seconds lease{};  ///< it may be silent for so long after `heard`
  // As it was reported last, since it began:
  int epochs = 0;
  Seconds time{};
  Joules energy{};
  Seconds first_time{};  ///< of that, in the first epoch, in which limits are profiled
  Joules first_energy{};
  bool converged = false;  ///< reached its target within its cost bound
  /// By Harpe's algorithm, while it is under way and of the newest that converged; else empty.
  MetricCurve metrics = {};

  bool has_result() const { return status == Status::kSucceeded; }
  friend bool operator==(const Trial&, const Trial&) = default;
};

/// Without its metrics.
std::string trial_json(const Trial& trial);

}  // namespace harpe::zeus
