#pragma once
/// \file
/// The report of `harpe run` after its command has ended.

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

/// Emissions of a command in grams, or the reason why there are none.
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
  std::string id = {};  ///< unique id of the run
  std::vector<std::string> notes;
  std::vector<BackendState> backends;
  bool simulated = false;
  bool unanswered = false;  ///< a driver did not respond after the command
  std::optional<RunEmissions> carbon = {};
  std::optional<EmbodiedCarbon> embodied;
  std::optional<zeus::TuningReport> tuning = {};

  int gpus() const;
  bool measured() const;  ///< true if any energy was measured
};

/// \param columns  of the terminal; 0 if there is none
std::string run_text(const RunReport& report, int columns, bool coloured);
/// Returns JSON of the format "harpe.run/1".
std::string run_json(const RunReport& report);

/// Returns lines of at most `columns` columns (0: any).
std::string tuning_text(const zeus::TuningReport& report, int columns, bool coloured);

}  // namespace harpe::command
