#pragma once
/// \file
/// A page with the regret of each way to choose batch sizes, recurrence by recurrence: one file
/// that needs no other. Pure.

#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::command {

/// One job's: what was paid beyond the oracle's costs up to each recurrence, mean over seeds, in
/// costs of one recurrence of the oracle.
struct RegretChart {
  std::string name;     ///< of the job
  std::string caption;  ///< a line of text below it
  std::vector<double> by_default, by_zeus, by_harpe;
};

struct RegretPageInput {
  std::string title = {};        ///< such as "Zeus's jobs on a V100"
  std::string subtitle = {};     ///< what was run
  std::string headline = {};     ///< the result in a sentence
  std::string explanation = {};  ///< what the charts show
  std::vector<RegretChart> charts = {};
  PageSource source = {};
};

std::string regret_page(const RegretPageInput& input);

}  // namespace harpe::command
