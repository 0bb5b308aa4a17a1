#pragma once
/// \file
/// What several runs emitted: by job, start or user, with a total and the statement of the method
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

/// The unit R that SCI is per.
struct FunctionalUnit {
  std::string name = "run";          ///< one of counted_units(), or the user's own
  std::optional<double> count = {};  ///< of all runs together; none: counted in the ledgers
};
/// The units that are counted in the ledgers.
std::vector<std::string> counted_units();

struct InventoryTerms {
  carbon::AccountTerms account = {};
  InventoryBy by = InventoryBy::kJob;
  FunctionalUnit unit = {};
};

struct InventoryRow {
  std::string name = {};
  std::vector<std::size_t> runs = {};  ///< places in `CarbonInventory::runs`
  carbon::CarbonAccount account = {};
  std::optional<carbon::CarbonAccount> contract = {};  ///< market-based
};

/// Intensities for a stretch of time that runs fill without long gaps.
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
  /// Of all runs; 0: it is not known.
  double units() const;
  double units_of(const InventoryRow& row) const;  ///< 0 where it is known of all together alone
};

/// The intensities of [from, to).
using FindIntensity =
    std::function<Result<carbon::AccountingIntensity>(carbon::UtcTime from, carbon::UtcTime to)>;

/// Runs without energy are left out, and noted. Fails where there is none with energy, where tokens
/// are to be counted and one does not tell those of an iteration, and with what `find` says.
/// \param contract  gives market-based intensities; may be empty
Result<CarbonInventory> make_inventory(std::vector<carbon::LedgerRun> runs,
                                       const InventoryTerms& terms, const FindIntensity& find,
                                       const FindIntensity& contract);

}  // namespace harpe::command
