#pragma once
/// \file
/// Zeus's traces of trainings: the epochs that a run took to its target with each batch size, and
/// the time and power of an epoch on a GPU under each power limit (Zeus, NSDI'23, section 6.1; the
/// files are in its repository).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::lab {

/// The training that a row of either file describes.
struct TraceKey {
  std::string dataset, network, optimizer;
  int batch_size = 0;
  friend bool operator==(const TraceKey&, const TraceKey&) = default;
};

struct TrainRow {
  TraceKey key;
  double target_metric = 0;
  std::optional<int> target_epoch;  ///< nullopt: this run never reached that metric
};

struct PowerRow {
  TraceKey key;
  int power_limit = 0;  ///< W
  Seconds epoch_time{};
  Watts average_power{};
};

/// Parses a file. Columns may be in any order; other columns are ignored. Reports all wrong rows.
Result<std::vector<TrainRow>> parse_train_rows(std::string_view text, const std::string& file);
Result<std::vector<PowerRow>> parse_power_rows(std::string_view text, const std::string& file);

struct Traces {
  std::vector<TrainRow> train;
  std::vector<PowerRow> power;  ///< of one GPU
};
}  // namespace harpe::lab
