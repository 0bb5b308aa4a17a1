#pragma once
/// \file
/// The table of an inventory, as terminals and pages show it.

#include <string>
#include <vector>

#include "harpe/carbon_cli/carbon_inventory.h"

namespace harpe {

/// Headings, a row each, and one of the total where there are several.
std::vector<std::vector<std::string>> inventory_table(const CarbonInventory& inventory);

}  // namespace harpe
