#pragma once
/// \file
/// A recurring job as the traces have it: what each batch size takes to its target, and what an
/// epoch takes under each power limit. The jobs are those of Zeus's evaluation (NSDI'23, table 1).

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/replay/traces.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::lab {

struct TracedLimit {
  int watts = 0;
  Seconds epoch_time{};
  Joules epoch_energy{};
};

struct TracedSize {
  int batch_size = 0;
  std::vector<std::optional<int>> runs;  ///< epochs to target; none: never reached
  std::vector<TracedLimit> limits;       ///< rising
  std::size_t best = 0;                  ///< of the limits: cheapest

  bool always_converges() const;
  double mean_epochs() const;  ///< of those that converged
  /// Of an epoch in which all limits are profiled: the mean over them.
  TracedLimit profiled() const;
};

/// The number of recurrences that Harpe is told beforehand.
struct Horizon {
  bool is_known = false;  ///< each job's own number
  int recurrences = 0;    ///< otherwise; 0: it is told none
  int of(int own) const { return is_known ? own : recurrences; }
};

struct TracedJob {
  std::string dataset;
  zeus::RecurringJob job;         ///< sizes, default, eta, beta, max_epochs, max_power, recurrences
  std::vector<TracedSize> sizes;  ///< as those of `job`
  std::size_t first = 0;          ///< of the sizes: the default
  Horizon horizon = {};           ///< `job.recurrences` are replayed, whatever this is

  double epoch_cost(const TracedLimit& limit) const {
    return job.cost(limit.epoch_energy, limit.epoch_time);
  }
  /// One of the job's sizes.
  const TracedSize& size_of(int batch_size) const;
  /// Of the cheapest size and limit among the sizes of which every run converged.
  double oracle_cost() const;
  const TracedSize& oracle() const;
};

struct TracedDataset {
  const char* name;
  const char* network;
  const char* optimizer;
  double target;
  bool higher_is_better;
  int max_epochs;
  int default_v100, default_a40, default_p100, default_rtx6000;
};
std::span<const TracedDataset> traced_datasets();
/// The same job once for each target that the traces have of it, rising.
std::vector<TracedDataset> with_each_target(const Traces& traces, const TracedDataset& dataset);
/// "v100", ...
std::span<const char* const> traced_gpus();

/// `kInvalidInput` where the traces have no runs of that job, or none with its default size that
/// always converges.
Result<TracedJob> traced_job(const Traces& traces, const TracedDataset& dataset,
                             const std::string& gpu, double eta);

}  // namespace harpe::lab
