#pragma once
/// \file
/// An inventory for people, as CSV, as JSON and as a page, each with the statement of its method.

#include <string>
#include <vector>

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

}  // namespace harpe::command
