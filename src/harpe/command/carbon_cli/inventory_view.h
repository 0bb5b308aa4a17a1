#pragma once
/// \file
/// An inventory for people, as CSV, as JSON and as a page, each with the statement of its method.

#include <string>
#include <vector>

#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/carbon_cli/carbon_inventory.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// Returns one sentence to quote.
std::string inventory_sentence(const CarbonInventory& inventory);
/// Returns the SCI, or the reason why it is not stated.
std::string sci_sentence(const CarbonInventory& inventory);
/// Returns all facts that a reader needs to judge the numbers and to reproduce them.
std::vector<std::string> method_statement(const CarbonInventory& inventory);

/// \param columns  of the terminal; 0 if there is none
std::string inventory_text(const CarbonInventory& inventory, int columns, bool coloured);
/// Returns JSON of the format "harpe.carbon_report/1".
std::string inventory_json(const CarbonInventory& inventory);
/// Returns one row per row of the inventory and one for the total, after the method as comments.
std::string inventory_csv(const CarbonInventory& inventory);
std::string inventory_page(const CarbonInventory& inventory, const PageSource& source = {});

/// Returns the unit of all energies of an inventory, which suits the total. All masses share a unit
/// likewise; the mass per functional unit has its own, which suits the mean.
inline TextUnit energy_unit(const CarbonInventory& inventory) {
  return energy_unit(inventory.total.site);
}
inline TextUnit mass_unit(const CarbonInventory& inventory) {
  return mass_unit(inventory.total.operational);
}

inline TextUnit mass_unit_per_unit(const CarbonInventory& inventory) {
  const double units = inventory.units();
  return mass_unit(units > 0 ? inventory.total.total() / units : inventory.total.total());
}

/// Returns the headings, one row per row of the inventory, and one for the total if there are
/// several.
std::vector<std::vector<std::string>> inventory_table(const CarbonInventory& inventory);

}  // namespace harpe::command
