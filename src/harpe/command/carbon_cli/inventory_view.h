#pragma once
/// \file
/// An inventory for people, as CSV, as JSON and as a page, each with the statement of its method.

#include <string>
#include <vector>

#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/carbon_cli/carbon_inventory.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// One sentence to quote.
std::string inventory_sentence(const CarbonInventory& inventory);
/// What SCI is, or why it is not stated.
std::string sci_sentence(const CarbonInventory& inventory);
/// Everything that a reader needs to judge the numbers and to compute them again.
std::vector<std::string> method_statement(const CarbonInventory& inventory);

/// \param columns  of the terminal; 0: it is none
std::string inventory_text(const CarbonInventory& inventory, int columns, bool coloured);
/// "harpe.carbon_report/1".
std::string inventory_json(const CarbonInventory& inventory);
/// A row each and one of the total, behind the method as comments.
std::string inventory_csv(const CarbonInventory& inventory);
std::string inventory_page(const CarbonInventory& inventory, const PageSource& source = {});

/// The units of all energies and masses of an inventory: those that suit its total. What falls
/// on one functional unit has a unit of its own, which suits the mean of all.
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

/// Headings, a row each, and one of the total where there are several.
std::vector<std::vector<std::string>> inventory_table(const CarbonInventory& inventory);

}  // namespace harpe::command
