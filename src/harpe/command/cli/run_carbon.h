#pragma once
/// \file
/// `harpe run --carbon SOURCE`: the intensities of the time of a command, asked for when it has
/// ended.

#include <functional>
#include <optional>
#include <string>

#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/carbon_cli/source_options.h"

namespace harpe {

/// What --carbon and --offline said; `source.text` is empty where nothing was asked for.
struct RunCarbon {
  SourceArguments source;

  bool asked() const { return !source.text.empty(); }
  /// A number or a country's yearly mean: there is nothing to ask.
  bool is_number() const;
};

/// Whether its token or file is there: what is missing is better known before the command runs
/// than after. Asks no provider.
Status check_source(const RunCarbon& carbon);

/// On which grid a command is measured: 5 minutes, or the steps of a source that are finer.
WholeSeconds ledger_step(const RunCarbon& carbon);

struct FoundIntensity {
  std::optional<AccountingIntensity> intensity = {};
  std::string why = {};  ///< there is none
  /// A provider is still asked by a thread that cannot be ended: leave by `_Exit`.
  bool hangs = false;
};
/// Waits no longer than that, nor once `give_up` (asked every 50 ms) says so.
FoundIntensity find_intensity(const RunCarbon& carbon, UtcTime from, UtcTime to, Seconds longest,
                              const std::function<bool()>& give_up);

}  // namespace harpe
