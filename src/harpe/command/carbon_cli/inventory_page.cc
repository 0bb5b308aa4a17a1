#include <algorithm>
#include <array>

#include "harpe/base/text.h"
#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/carbon_cli/inventory_view.h"
#include "harpe/report/frame.h"
#include "harpe/report/usage_page.h"

namespace harpe::command {
namespace {

constexpr std::int64_t kMostBars = 120;

struct BarLength {
  carbon::WholeSeconds length;
  const char* name;
};
constexpr std::array kBarLengths =
    std::to_array<BarLength>({{carbon::whole_minutes(1), "minute"},
                              {carbon::whole_minutes(5), "5 min"},
                              {carbon::whole_minutes(15), "15 min"},
                              {carbon::whole_hours(1), "hour"},
                              {carbon::whole_hours(3), "3 h"},
                              {carbon::whole_hours(12), "12 h"},
                              {carbon::whole_days(1), "day"},
                              {carbon::whole_days(7), "week"},
                              {carbon::whole_days(30), "30 days"},
                              {carbon::whole_days(180), "180 days"}});

/// Returns the shortest length that gives few bars and is at least the ledgers' longest interval.
BarLength bar_length(const CarbonInventory& inventory) {
  carbon::WholeSeconds longest{1};
  for (const carbon::LedgerRun& run : inventory.runs)
    longest = std::max(longest, run.ledger.step());
  const carbon::WholeSeconds time = inventory.total.end - inventory.total.begin;
  for (const BarLength& one : kBarLengths) {
    if (one.length >= longest && time / one.length < kMostBars) return one;
  }
  return kBarLengths.back();
}

std::string bar_label(carbon::UtcTime time, carbon::WholeSeconds length) {
  std::string text = carbon::utc_text(time).substr(0, length >= carbon::whole_days(1) ? 10 : 16);
  if (text.size() > 10) text[10] = ' ';
  return text;
}

void add_bars(const CarbonInventory& inventory, const InventoryRow& row, carbon::UtcTime first,
              carbon::WholeSeconds length, report::UsageSeries& series, std::vector<bool>& gaps) {
  const carbon::AccountTerms& terms = inventory.terms.account;
  const TextUnit energy = energy_unit(inventory), mass = mass_unit(inventory);
  for (const std::size_t i : row.runs) {
    const carbon::AccountedSeries& intensity =
        inventory.stretches[inventory.stretch_of[i]].intensity.intensity;
    for (const carbon::AccountedInterval& one :
         carbon::account_by_interval(inventory.runs[i].ledger, intensity, terms)) {
      const auto bar = static_cast<std::size_t>((one.start - first) / length);
      series.energy[bar] += one.used.energy.value * terms.pue / energy.size;
      series.mass[bar] += one.operational.value / mass.size;
      series.paused[bar] += one.used.paused.value / static_cast<double>(length.count());
      const bool is_gap = one.worst == carbon::IntensityBasis::kNone && one.used.energy.value > 0;
      gaps[bar] = gaps[bar] || is_gap;
    }
  }
}

}  // namespace

std::string inventory_page(const CarbonInventory& inventory, const PageSource& source) {
  const BarLength bar = bar_length(inventory);
  const carbon::WholeSeconds length = bar.length;
  const std::int64_t from = inventory.total.begin.since_1970;
  const carbon::UtcTime first{from - from % length.count()};
  const auto bars = static_cast<std::size_t>(
      (inventory.total.end - first + length + carbon::WholeSeconds(-1)) / length);
  report::UsagePageInput page{.title = "Energy and carbon",
                              .subtitle = carbon::utc_text(inventory.total.begin) + " to " +
                                          carbon::utc_text(inventory.total.end) + ", " +
                                          inventory.source,
                              .headline = inventory_sentence(inventory),
                              .explanation = sci_sentence(inventory),
                              .interval_length = bar.name,
                              .energy_unit = energy_unit(inventory).name,
                              .mass_unit = mass_unit(inventory).name,
                              .gaps = std::vector<bool>(bars, false),
                              .table = inventory_table(inventory),
                              .has_total = inventory.rows.size() > 1,
                              .method = method_statement(inventory),
                              .source = source};
  if (inventory.simulated()) {
    page.doubt = report::kSimulatedCaption;
    page.warnings.emplace_back("GPUs are simulated: these figures are not from real devices.");
  }
  const std::string warning = kind_warning(inventory.total.kind, false);
  if (!warning.empty()) page.warnings.push_back(warning);
  for (std::size_t i = 0; i < bars; ++i) {
    page.intervals.push_back(bar_label(first + static_cast<std::int64_t>(i) * length, length));
  }
  for (const InventoryRow& row : inventory.rows) {
    report::UsageSeries series{.name = row.name,
                               .energy = std::vector<double>(bars, 0),
                               .mass = std::vector<double>(bars, 0),
                               .paused = std::vector<double>(bars, 0)};
    add_bars(inventory, row, first, length, series, page.gaps);
    page.series.push_back(std::move(series));
  }
  return report::usage_page(page);
}

}  // namespace harpe::command
