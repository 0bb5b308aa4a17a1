#pragma once
/// \file
/// `harpe replay zeus --groups`: recurring jobs that overlap (replay/concurrent_recurrences.h).

#include <string>

#include "harpe/command/command/command.h"
#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::command {

struct GroupsArguments {
  std::string groups;     ///< file
  std::string directory;  ///< of the traces
  std::string gpu;
  std::string csv;  ///< empty: not written
  int seeds = 20;
  double eta = 0.5;
  zeus::PayBackPrior prior = {};  ///< what Harpe believes beforehand
  lab::Horizon horizon = {};
};

Result<Outcome> replay_groups(const GroupsArguments& arguments, Console& console);

}  // namespace harpe::command
