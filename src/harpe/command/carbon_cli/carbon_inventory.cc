#include "harpe/command/carbon_cli/carbon_inventory.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::command {
namespace {

/// Runs that are further apart than this are requested separately.
constexpr carbon::WholeSeconds kLongGap = carbon::whole_days(2);

std::string row_name(const carbon::LedgerRun& run, InventoryBy by) {
  if (by == InventoryBy::kUser) return run.user.empty() ? "(no user stated)" : run.user;
  std::string name = run.job.empty() ? run.id : run.job;
  if (by == InventoryBy::kJob) return name;
  if (run.start > 0) name += " #" + std::to_string(run.start);
  if (!run.run.empty()) name += " " + run.run;
  if (run.start == 0 && !run.ledger.empty()) name += " " + carbon::utc_text(run.ledger.begin());
  return name;
}

std::vector<InventoryStretch> find_stretches(const std::vector<carbon::LedgerRun>& runs,
                                             std::vector<std::size_t>& stretch_of) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < runs.size(); ++i) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) { return runs[i].ledger.begin(); });
  std::vector<InventoryStretch> stretches;
  stretch_of.resize(runs.size());
  for (const std::size_t i : order) {
    const carbon::UtcTime from = runs[i].ledger.begin(), to = runs[i].ledger.end();
    if (stretches.empty() || from > stretches.back().to + kLongGap) {
      stretches.push_back({.from = from, .to = to});
    }
    stretches.back().to = std::max(stretches.back().to, to);
    stretch_of[i] = stretches.size() - 1;
  }
  return stretches;
}

Status add_account(std::optional<carbon::CarbonAccount>& sum, const carbon::CarbonAccount& one) {
  if (sum) {
    sum = HARPE_TRY(carbon::sum_of(*sum, one));
  } else {
    sum = one;
  }
  return ok_status();
}

/// Returns the sum of the accounts of some runs; nullopt if a contract's intensity is missing.
Result<std::optional<carbon::CarbonAccount>> account_of(const CarbonInventory& inventory,
                                                        const std::vector<std::size_t>& runs,
                                                        bool contract) {
  std::optional<carbon::CarbonAccount> sum;
  carbon::AccountTerms terms = inventory.terms.account;
  terms.market_based = contract;
  for (const std::size_t i : runs) {
    const InventoryStretch& stretch = inventory.stretches[inventory.stretch_of[i]];
    if (contract && !stretch.contract) return std::optional<carbon::CarbonAccount>();
    const carbon::AccountingIntensity& intensity = contract ? *stretch.contract : stretch.intensity;
    HARPE_TRY(add_account(
        sum, carbon::account_for(inventory.runs[i].ledger, intensity.intensity, terms)));
  }
  return sum;
}

Status make_rows(CarbonInventory& inventory) {
  std::map<std::string, InventoryRow> rows;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < inventory.runs.size(); ++i) {
    const std::string name = row_name(inventory.runs[i], inventory.terms.by);
    rows[name].name = name;
    rows[name].runs.push_back(i);
    all.push_back(i);
  }
  for (auto& [name, row] : rows) {
    row.account =
        HARPE_TRY(account_of(inventory, row.runs, false)).value_or(carbon::CarbonAccount());
    row.contract = HARPE_TRY(account_of(inventory, row.runs, true));
    inventory.rows.push_back(std::move(row));
  }
  // Names are unique, so the order is, too.
  std::ranges::sort(inventory.rows, [](const InventoryRow& a, const InventoryRow& b) {
    return std::pair(-a.account.used.energy.value, a.name) <
           std::pair(-b.account.used.energy.value, b.name);
  });
  inventory.total = HARPE_TRY(account_of(inventory, all, false)).value_or(carbon::CarbonAccount());
  inventory.total_contract = HARPE_TRY(account_of(inventory, all, true));
  return ok_status();
}

/// Fails if a run has no tokens: its grams would count, but not its tokens.
Status check_tokens(const std::vector<carbon::LedgerRun>& runs) {
  for (const carbon::LedgerRun& run : runs) {
    if (run.tokens_per_iteration > 0) continue;
    return Error::invalid("the number of tokens per iteration of " +
                          in_quotes(run.job.empty() ? run.id : run.job) +
                          " is not known: its terms of carbon control have no "
                          "tokens_per_iteration; give --tokens N (or --units N)");
  }
  return ok_status();
}

double count_units(const CarbonInventory& inventory, const std::vector<std::size_t>& runs,
                   const carbon::CarbonAccount& account) {
  const std::string& name = inventory.terms.unit.name;
  if (name == "iteration") return account.used.iterations;
  if (name == "device-hour") return account.used.device_time.value / 3600;
  if (name == "token") {
    double tokens = 0;
    for (const std::size_t i : runs) {
      const carbon::LedgerRun& run = inventory.runs[i];
      tokens += run.ledger.total().iterations * run.tokens_per_iteration;
    }
    return tokens;
  }
  if (name == "run") return static_cast<double>(runs.size());
  std::set<std::string> names;
  for (const std::size_t i : runs) {
    const carbon::LedgerRun& run = inventory.runs[i];
    const std::string& one = name == "user" ? run.user : run.job;
    if (!one.empty()) names.insert(one);
  }
  return static_cast<double>(names.size());
}

}  // namespace

std::vector<std::string> counted_units() {
  return {"job", "run", "user", "iteration", "token", "device-hour"};
}

bool CarbonInventory::simulated() const {
  return std::ranges::any_of(runs, &carbon::LedgerRun::simulated);
}

double CarbonInventory::units() const {
  if (terms.unit.count) return *terms.unit.count;
  std::vector<std::size_t> all(runs.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return count_units(*this, all, total);
}

double CarbonInventory::units_of(const InventoryRow& row) const {
  if (terms.unit.count) return rows.size() == 1 ? *terms.unit.count : 0;
  return count_units(*this, row.runs, row.account);
}

Result<CarbonInventory> make_inventory(std::vector<carbon::LedgerRun> runs,
                                       const InventoryTerms& terms, const FindIntensity& find,
                                       const FindIntensity& contract) {
  CarbonInventory inventory{.terms = terms};
  for (carbon::LedgerRun& run : runs) {
    if (run.ledger.empty()) {
      inventory.notes.push_back(in_quotes(run.job.empty() ? run.id : run.job) +
                                " has no measurement");
      continue;
    }
    inventory.runs.push_back(std::move(run));
  }
  if (inventory.runs.empty()) {
    return Error::of(ErrorCode::kNotFound, "no energy was recorded in that time");
  }
  if (terms.unit.name == "token" && !terms.unit.count) HARPE_TRY(check_tokens(inventory.runs));
  inventory.stretches = find_stretches(inventory.runs, inventory.stretch_of);
  for (InventoryStretch& stretch : inventory.stretches) {
    stretch.intensity = HARPE_TRY(find(stretch.from, stretch.to));
    if (contract) stretch.contract = HARPE_TRY(contract(stretch.from, stretch.to));
  }
  HARPE_TRY(make_rows(inventory));
  return inventory;
}

}  // namespace harpe::command
