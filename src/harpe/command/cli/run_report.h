#pragma once
/// \file
/// What `harpe run` says when its command has ended.

#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/cli/run_child.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/zeus/tuning/job_tuning.h"

namespace harpe::command {

/// Grams of a command, or why there are none.
struct RunEmissions {
  std::string source = {};  ///< as the user wrote it
  std::optional<carbon::AccountingIntensity> intensity = {};
  carbon::CarbonAccount account = {};
  std::string why = {};
};

/// The results of a command that has ended.
struct RunReport {
  std::vector<std::string> command;
  ChildExit exit;
  WindowEnergy used;
  carbon::EnergyLedger ledger = carbon::EnergyLedger();
  std::string id = {};  ///< no other run has it
  std::vector<std::string> notes;
  std::vector<BackendState> backends;
  bool simulated = false;
  bool unanswered = false;  ///< a driver did not answer after the command
  std::optional<RunEmissions> carbon = {};
  std::optional<EmbodiedCarbon> embodied;
  std::optional<zeus::TuningReport> tuning = {};

  int gpus() const;
  bool measured() const;  ///< any energy
};

/// \param columns  of the terminal; 0: it is none
std::string run_text(const RunReport& report, int columns, bool coloured);
/// "harpe.run/1".
std::string run_json(const RunReport& report);

/// Lines, in so many columns (0: any).
std::string tuning_text(const zeus::TuningReport& report, int columns, bool coloured);

}  // namespace harpe::command
