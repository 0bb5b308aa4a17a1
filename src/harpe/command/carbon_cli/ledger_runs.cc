#include "harpe/command/carbon_cli/ledger_runs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::command {
namespace {

std::string name_of_run(const carbon::LedgerRun& run) {
  std::string name = in_quotes(run.job.empty() ? run.id : run.job);
  if (run.start > 0) name += " (start " + std::to_string(run.start) + ")";
  return name;
}

/// Adds the energy that the second copy of a run has beyond the first. Returns a note on both.
std::string merge_copies(carbon::LedgerRun& first, const ReadRun& second,
                         const std::string& first_from) {
  const std::string both = name_of_run(first) + " is in " + first_from + " and in " + second.from;
  if (first.ledger.step() != second.run.ledger.step()) {
    return both + ", with different intervals: only the copy in " + first_from + " counts";
  }
  carbon::EnergyLedger merged(first.ledger.step());
  bool differs = first.ledger.size() != second.run.ledger.size();
  auto uses = first.ledger.uses();
  for (const auto& [start, use] : second.run.ledger.uses()) {
    const auto [found, is_new] = uses.try_emplace(start, use);
    if (is_new || found->second.energy == use.energy) continue;
    differs = true;
    if (found->second.energy < use.energy) found->second = use;
  }
  for (const auto& [start, use] : uses) {
    const auto at = static_cast<double>(start.since_1970);
    (void)merged.add(at, at, use);
  }
  first.ledger = std::move(merged);
  return both +
         (differs
              ? ", in copies that differ: it counts once, with the larger energy of each interval"
              : ": it counts once");
}

/// Notes devices that several runs measured at the same time.
void note_shared_devices(CountedRuns& counted) {
  std::map<std::string, std::vector<const carbon::LedgerRun*>> by_device;
  for (const carbon::LedgerRun& run : counted.runs) {
    if (run.ledger.empty()) continue;
    for (const std::string& device : run.device_ids) by_device[device].push_back(&run);
  }
  for (auto& [device, runs] : by_device) {
    std::ranges::sort(runs, {}, [](const carbon::LedgerRun* run) { return run->ledger.begin(); });
    for (std::size_t i = 1; i < runs.size(); ++i) {
      // Consecutive runs may share an interval.
      const carbon::UtcTime end = runs[i - 1]->ledger.end();
      if (runs[i]->ledger.begin() + runs[i]->ledger.step() >= end) continue;
      counted.notes.push_back("the device " + device + " is measured by " +
                              name_of_run(*runs[i - 1]) + " and by " + name_of_run(*runs[i]) +
                              " at the same time: its energy of that time is counted twice");
    }
  }
}

}  // namespace

CountedRuns count_once(std::vector<ReadRun> read) {
  CountedRuns counted;
  std::map<std::string, std::pair<std::size_t, std::string>> known;  // index and source, by id
  for (ReadRun& one : read) {
    const auto found = known.find(one.run.id);
    if (found != known.end()) {
      counted.notes.push_back(
          merge_copies(counted.runs[found->second.first], one, found->second.second));
      continue;
    }
    known[one.run.id] = {counted.runs.size(), one.from};
    counted.runs.push_back(std::move(one.run));
  }
  note_shared_devices(counted);
  return counted;
}

}  // namespace harpe::command
