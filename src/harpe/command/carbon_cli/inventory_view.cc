#include "harpe/command/carbon_cli/inventory_view.h"

#include <algorithm>
#include <array>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

constexpr std::size_t kMostValuesInJson = 100'000;
constexpr std::size_t kWidestName = 32;
constexpr double kJoulesInKwh = 3.6e6;

const char* by_word(InventoryBy by) {
  constexpr std::array kWords = {"job", "run", "user"};
  return kWords.at(static_cast<std::size_t>(by));
}

/// Returns true if some energy has an intensity, and therefore grams.
bool has_grams(const carbon::CarbonAccount& account) {
  return account.site > account.without_intensity();
}

using Cells = std::vector<std::string>;

Cells cells_of(const CarbonInventory& inventory, const std::string& name,
               const carbon::CarbonAccount& account,
               const std::optional<carbon::CarbonAccount>& contract, double units) {
  const TextUnit mass = mass_unit(inventory);
  Cells cells = {
      name, kilowatt_hours_text(account.site, energy_unit(inventory)),
      has_grams(account) ? mass_text(account.operational, account.uncertainty(), mass) : "-",
      has_grams(account) ? shortest(account.grams_per_kwh(), 1) : "-"};
  if (inventory.total_contract) {
    cells.push_back(contract && has_grams(*contract) ? mass_text(contract->operational, mass)
                                                     : "-");
  }
  if (inventory.terms.account.embodied) cells.push_back(mass_text(account.embodied, mass));
  cells.push_back(grouped(account.used.device_time.value / 3600,
                          account.used.device_time.value < 3600 ? 4 : 2));
  const bool per_unit = units > 0 && account.without_intensity().value <= 0;
  cells.push_back(per_unit ? mass_text(account.total() / units, mass_unit_per_unit(inventory))
                           : "-");
  return cells;
}

Cells headings_of(const CarbonInventory& inventory) {
  Cells cells = {by_word(inventory.terms.by), "energy", "CO2eq of operation", "g/kWh"};
  if (inventory.total_contract) cells.emplace_back("market-based");
  if (inventory.terms.account.embodied) cells.emplace_back("embodied");
  cells.emplace_back("device-hours");
  cells.push_back("per " + inventory.terms.unit.name);
  return cells;
}

std::string table_text(const CarbonInventory& inventory, bool coloured) {
  const std::vector<Cells> rows = inventory_table(inventory);
  Table table = Table::of(rows.front());
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bool is_total = inventory.rows.size() > 1 && r + 1 == rows.size();
    table.add(rows[r], is_total);
    table.rows.back().cells[0] = cut_to(rows[r][0], kWidestName);
  }
  return table.text(coloured);
}

Json row_json(const CarbonInventory& inventory, const carbon::CarbonAccount& account,
              const std::optional<carbon::CarbonAccount>& contract, double units) {
  Json json = account_json(account);
  json["units"] = units > 0 ? Json(units) : Json(nullptr);
  const bool per_unit = units > 0 && account.without_intensity().value <= 0;
  json["grams_per_unit"] = per_unit ? Json(account.total().value / units) : Json(nullptr);
  json["market_based_account"] = contract ? account_json(*contract) : Json(nullptr);
  if (!inventory.terms.account.embodied) json["embodied_grams"] = nullptr;
  return json;
}

Json run_row_json(const carbon::LedgerRun& run) {
  return {{"id", run.id},
          {"job", run.job},
          {"run", run.run},
          {"start", run.start},
          {"user", run.user.empty() ? Json(nullptr) : Json(run.user)},
          {"devices", run.devices},
          {"simulated", run.simulated},
          {"meters", run.meters},
          {"from", carbon::utc_text(run.ledger.begin())},
          {"to", carbon::utc_text(run.ledger.end())},
          {"energy_kwh", run.ledger.total().energy.value / kJoulesInKwh}};
}

std::string csv_row(const CarbonInventory& inventory, const std::string& name, std::size_t runs,
                    const carbon::CarbonAccount& account,
                    const std::optional<carbon::CarbonAccount>& contract, double units) {
  const bool known = has_grams(account);
  const bool per_unit = units > 0 && account.without_intensity().value <= 0;
  const Cells cells = {
      csv_cell(name),
      std::to_string(runs),
      carbon::utc_text(account.begin),
      carbon::utc_text(account.end),
      shortest(account.used.energy.value / kJoulesInKwh),
      shortest(account.used.half_width().value / kJoulesInKwh),
      shortest(account.site.value / kJoulesInKwh),
      known ? shortest(account.operational.value) : "",
      shortest(account.half_width().value),
      known ? shortest(account.grams_per_kwh()) : "",
      shortest(account.without_intensity().value / kJoulesInKwh),
      contract && has_grams(*contract) ? shortest(contract->operational.value) : "",
      inventory.terms.account.embodied ? shortest(account.embodied.value) : "",
      shortest(account.used.device_time.value / 3600),
      shortest(account.used.unmeasured().value / 3600),
      shortest(account.used.iterations),
      per_unit ? shortest(account.total().value / units) : ""};
  return joined(cells, ",") + "\n";
}

}  // namespace

std::vector<std::vector<std::string>> inventory_table(const CarbonInventory& inventory) {
  std::vector<Cells> table = {headings_of(inventory)};
  for (const InventoryRow& row : inventory.rows) {
    table.push_back(
        cells_of(inventory, row.name, row.account, row.contract, inventory.units_of(row)));
  }
  if (inventory.rows.size() > 1) {
    table.push_back(
        cells_of(inventory, "total", inventory.total, inventory.total_contract, inventory.units()));
  }
  return table;
}

std::string inventory_text(const CarbonInventory& inventory, int columns, bool coloured) {
  std::string text = wrapped_text(inventory_sentence(inventory), columns, 0) + '\n' +
                     table_text(inventory, coloured);
  text += "\n" + wrapped_text(sci_sentence(inventory), columns, 0) + '\n' +
          painted("Method", Paint::kBold, coloured) + "\n";
  for (const std::string& line : method_statement(inventory)) {
    text += wrapped_text("* " + line, columns);
  }
  return text;
}

std::string inventory_json(const CarbonInventory& inventory) {
  Json rows = Json::array(), runs = Json::array(), intensities = Json::array();
  for (const InventoryRow& row : inventory.rows) {
    Json json = {{"name", row.name}, {"runs", row.runs.size()}};
    json.update(row_json(inventory, row.account, row.contract, inventory.units_of(row)));
    rows.push_back(std::move(json));
  }
  for (const carbon::LedgerRun& run : inventory.runs) runs.push_back(run_row_json(run));
  for (const InventoryStretch& stretch : inventory.stretches) {
    Json json = intensity_json(stretch.intensity, kMostValuesInJson);
    json["market_based"] = false;
    intensities.push_back(std::move(json));
    if (!stretch.contract) continue;
    json = intensity_json(*stretch.contract, kMostValuesInJson);
    json["market_based"] = true;
    intensities.push_back(std::move(json));
  }
  return json_text(
      {{"format", "harpe.carbon_report/1"},
       {"source", inventory.source},
       {"by", by_word(inventory.terms.by)},
       {"pue", inventory.terms.account.pue},
       {"functional_unit", inventory.terms.unit.name},
       {"simulated", inventory.simulated()},
       {"total", row_json(inventory, inventory.total, inventory.total_contract, inventory.units())},
       {"rows", std::move(rows)},
       {"runs", std::move(runs)},
       {"intensities", std::move(intensities)},
       {"sentence", inventory_sentence(inventory)},
       {"sci", sci_sentence(inventory)},
       {"method", method_statement(inventory)},
       {"notes", inventory.notes}});
}

std::string inventory_csv(const CarbonInventory& inventory) {
  std::string text;
  for (std::string line : method_statement(inventory)) {
    // Control characters in the name of a job must not end the comment.
    std::ranges::replace_if(line, is_control, '?');
    text += "# " + line + "\n";
  }
  text += std::string(by_word(inventory.terms.by)) +
          ",runs,from,to,energy_kwh,energy_error_kwh,site_kwh,grams,error_grams,grams_per_kwh,"
          "without_intensity_kwh,market_based_grams,embodied_grams,device_hours,"
          "device_hours_unmeasured,iterations," +
          csv_cell("grams_per_" + inventory.terms.unit.name) + "\n";
  for (const InventoryRow& row : inventory.rows) {
    text += csv_row(inventory, row.name, row.runs.size(), row.account, row.contract,
                    inventory.units_of(row));
  }
  return text + csv_row(inventory, "total", inventory.runs.size(), inventory.total,
                        inventory.total_contract, inventory.units());
}

}  // namespace harpe::command
