#include "harpe/training/server/hosted_table.h"

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
  count(*hosted, 0);
  loaded_.erase(hosted->id);
}

std::vector<std::function<void(const Result<HostedPtr>&)>> HostedTable::erase_stored(
    const std::string& id) {
  return std::move(stored_.extract(id).mapped().waiting);
}

void HostedTable::measure(Hosted& hosted) {
  count(hosted, hosted.memory());
}

void HostedTable::count(Hosted& hosted, std::size_t memory) {
  const std::size_t more = memory - std::exchange(hosted.memory_counted, memory);
  memory_ += more;
  const auto of_client = memory_of_.try_emplace(hosted.client).first;
  of_client->second += more;
  if (of_client->second == 0) memory_of_.erase(of_client);
}

void HostedTable::charge(Hosted& hosted, const std::string& client) {
  const std::size_t memory = hosted.memory_counted;
  count(hosted, 0);
  hosted.client = client;
  count(hosted, memory);
}

std::size_t HostedTable::memory(const std::string& client) const {
  const auto found = memory_of_.find(client);
  return found == memory_of_.end() ? 0 : found->second;
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
