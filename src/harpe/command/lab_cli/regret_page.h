#pragma once
/// \file
/// A page with the regret of each way to choose batch sizes, recurrence by recurrence, as one
/// standalone file. Pure.

#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::command {

/// The regret of one job: the cost beyond the oracle's up to each recurrence, as a mean over seeds,
/// in units of one recurrence of the oracle.
struct RegretChart {
  std::string name;     ///< of the job
  std::string caption;  ///< a line of text below it
  std::vector<double> by_default, by_zeus, by_harpe;
};

struct RegretPageInput {
  std::string title = {};        ///< such as "Zeus's jobs on a V100"
  std::string subtitle = {};     ///< the runs
  std::string headline = {};     ///< the result in a sentence
  std::string explanation = {};  ///< of the charts
  std::vector<RegretChart> charts = {};
  PageSource source = {};
};

std::string regret_page(const RegretPageInput& input);

}  // namespace harpe::command
