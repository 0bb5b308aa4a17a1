#pragma once
/// \file
/// The table of an inventory, as terminals and pages show it.

#include <string>
#include <vector>

#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/carbon_cli/carbon_inventory.h"

namespace harpe::command {

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
