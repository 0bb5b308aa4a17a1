#pragma once
/// \file
/// The emissions of several runs by job, run or user, with a total and the statement of the method
/// that makes the numbers fit to be quoted.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"

namespace harpe::command {

enum class InventoryBy : unsigned char { kJob, kRun, kUser };

/// The functional unit R of SCI.
struct FunctionalUnit {
  std::string name = "run";          ///< one of counted_units(), or another name
  std::optional<double> count = {};  ///< of all runs together; nullopt: counted in the ledgers
};
/// Returns the units that are counted in the ledgers.
std::vector<std::string> counted_units();

struct InventoryTerms {
  carbon::AccountTerms account = {};
  InventoryBy by = InventoryBy::kJob;
  FunctionalUnit unit = {};
};

struct InventoryRow {
  std::string name = {};
  std::vector<std::size_t> runs = {};  ///< positions in `CarbonInventory::runs`
  carbon::CarbonAccount account = {};
  std::optional<carbon::CarbonAccount> contract = {};  ///< market-based
};

/// Intensities for a span of time that runs fill without long gaps.
struct InventoryStretch {
  carbon::UtcTime from = {}, to = {};
  carbon::AccountingIntensity intensity = {};
  std::optional<carbon::AccountingIntensity> contract = {};
};

struct CarbonInventory {
  InventoryTerms terms = {};
  std::string source = {}, contract_source = {};  ///< as the user wrote them
  std::vector<carbon::LedgerRun> runs = {};
  std::vector<std::size_t> stretch_of = {};  ///< of each run
  std::vector<InventoryStretch> stretches = {};
  std::vector<InventoryRow> rows = {};  ///< by falling energy
  carbon::CarbonAccount total = {};
  std::optional<carbon::CarbonAccount> total_contract = {};
  std::vector<std::string> notes = {};

  bool simulated() const;
  /// Returns the units of all runs; 0 if unknown.
  double units() const;
  double units_of(const InventoryRow& row) const;  ///< 0 if only the sum of all runs is known
};

/// Returns the intensities of [from, to).
using FindIntensity =
    std::function<Result<carbon::AccountingIntensity>(carbon::UtcTime from, carbon::UtcTime to)>;

/// Makes the inventory. Runs without energy are left out, with a note. Fails if no run has energy,
/// if tokens are counted and a run lacks the tokens of an iteration, and with the error of `find`.
/// \param contract  returns market-based intensities; may be empty
Result<CarbonInventory> make_inventory(std::vector<carbon::LedgerRun> runs,
                                       const InventoryTerms& terms, const FindIntensity& find,
                                       const FindIntensity& contract);

}  // namespace harpe::command
