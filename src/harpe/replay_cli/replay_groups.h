#pragma once
/// \file
/// `harpe replay zeus --groups`: recurring jobs that overlap (replay/concurrent_recurrences.h).

#include <string>

#include "harpe/batch_size/pay_back.h"
#include "harpe/command/command.h"
#include "harpe/replay/traced_job.h"

namespace harpe {

struct GroupsArguments {
  std::string groups;     ///< file
  std::string directory;  ///< of the traces
  std::string gpu;
  std::string csv;  ///< empty: not written
  int seeds = 20;
  double eta = 0.5;
  PayBackPrior prior = {};  ///< what Harpe believes beforehand
  Horizon horizon = {};
};

Result<Outcome> replay_groups(const GroupsArguments& arguments, Console& console);

}  // namespace harpe
