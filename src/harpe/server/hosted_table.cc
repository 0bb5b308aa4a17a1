#include "harpe/server/hosted_table.h"

#include <utility>

namespace harpe {

HostedPtr HostedTable::find(const std::string& id) const {
  const auto found = loaded_.find(id);
  return found == loaded_.end() ? nullptr : found->second;
}

HostedTable::Stored* HostedTable::find_stored(const std::string& id) {
  const auto found = stored_.find(id);
  return found == stored_.end() ? nullptr : &found->second;
}

const JobClaim* HostedTable::claim_of(const std::string& id) const {
  if (const auto loaded = loaded_.find(id); loaded != loaded_.end()) return &loaded->second->claim;
  const auto stored = stored_.find(id);
  return stored == stored_.end() ? nullptr : &stored->second.claim;
}

void HostedTable::add(const HostedPtr& hosted) {
  stored_.erase(hosted->id);
  loaded_.insert_or_assign(hosted->id, hosted);
  measure(*hosted);
}

void HostedTable::add_stored(JobSummary summary, const JobClaim& claim) {
  std::string id = summary.job;
  stored_.insert_or_assign(std::move(id), Stored{.summary = std::move(summary), .claim = claim});
}

void HostedTable::erase(const HostedPtr& hosted) {
  memory_ -= std::exchange(hosted->memory_counted, 0);
  loaded_.erase(hosted->id);
}

std::vector<std::function<void(const Result<HostedPtr>&)>> HostedTable::erase_stored(
    const std::string& id) {
  return std::move(stored_.extract(id).mapped().waiting);
}

void HostedTable::measure(Hosted& hosted) {
  const std::size_t memory = hosted.memory();
  memory_ += memory - std::exchange(hosted.memory_counted, memory);
}

void HostedTable::visit(
    const std::string& after,
    const std::function<bool(const std::string&, const HostedPtr&, const Stored*)>& visit) const {
  auto loaded = loaded_.upper_bound(after);
  auto stored = stored_.upper_bound(after);
  for (bool goes_on = true; goes_on && (loaded != loaded_.end() || stored != stored_.end());) {
    const bool is_loaded =
        stored == stored_.end() || (loaded != loaded_.end() && loaded->first < stored->first);
    if (is_loaded) {
      goes_on = visit(loaded->first, loaded->second, nullptr);
      ++loaded;
    } else {
      goes_on = visit(stored->first, nullptr, &stored->second);
      ++stored;
    }
  }
}

}  // namespace harpe
