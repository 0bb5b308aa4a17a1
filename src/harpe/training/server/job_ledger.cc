#include "harpe/training/server/job_ledger.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_text.h"

namespace harpe::training {
namespace {

constexpr const char* kUserPart = "energy:user";
constexpr std::size_t kBytesOfInterval = 152;
constexpr carbon::WholeSeconds kDay = carbon::whole_days(1);

carbon::UtcTime day_of(carbon::UtcTime time) {
  return {time.since_1970 - time.since_1970 % kDay.count()};
}

}  // namespace

void JobLedger::set_user(const std::string& user) {
  if (!runs_.empty() && runs_.rbegin()->second.user.empty() && !user.empty()) {
    carbon::LedgerRun& newest = runs_.rbegin()->second;
    newest.user = user;
    for (const auto& [start, use] : newest.ledger.uses()) changed_days_.insert(day_of(start));
  }
  user_changed_ = user_changed_ || user_ != user;
  user_ = user;
}

carbon::LedgerRun& JobLedger::run_of(const Training& training) {
  const auto start = static_cast<std::int64_t>(training.start);
  auto found = runs_.find(start);
  if (found == runs_.end() && runs_.size() >= kMostStarts) found = std::prev(runs_.end());
  if (found == runs_.end()) {
    carbon::LedgerRun run{.id = training.incarnation + "." + std::to_string(start),
                          .run = training.run,
                          .start = start,
                          .user = user_,
                          .ledger = carbon::EnergyLedger(kStep)};
    found = runs_.emplace(start, std::move(run)).first;
  }
  found->second.devices = std::max<std::int64_t>(found->second.devices, training.ranks);
  return found->second;
}

void JobLedger::put(carbon::LedgerRun& run, double from, double to, const carbon::EnergyUse& use) {
  const std::size_t before = run.ledger.size();
  // A machine's clock may say anything; what it says of before 1970 is nowhere to be put.
  if (!run.ledger.add(from, to, use).ok()) return;
  intervals_ += run.ledger.size() - before;
  const auto last = carbon::UtcTime{static_cast<std::int64_t>(to)};
  for (carbon::UtcTime day = day_of({static_cast<std::int64_t>(from)}); day <= last; day += kDay) {
    changed_days_.insert(day);
  }
}

void JobLedger::add(const Training& training, const ReportedUse& reported, double ended) {
  carbon::EnergyUse use;
  if (std::isfinite(reported.energy.value) && reported.energy.value >= 0) {
    use.energy = reported.energy;
    use.measured = reported.time;
    const double error = reported.energy_error.value;
    const bool known = std::isfinite(error) && error > 0;
    if (known) use.variance = error * error;
    if (!known) use.without_error = reported.energy;
  }
  if (training.all > 0) use.iterations = 1.0 / training.all;
  put(run_of(training), ended - reported.time.value, ended, use);
}

void JobLedger::hold(const Training& training, double from, double to) {
  if (to <= from) return;
  put(run_of(training), from, to, {.device_time = training.ranks * Seconds{to - from}});
}

void JobLedger::pause(const Training& training, double from, double to) {
  if (to <= from) return;
  put(run_of(training), from, to, {.paused = Seconds{to - from}});
}

std::vector<carbon::LedgerRun> JobLedger::runs(const std::string& job, carbon::UtcTime from,
                                               carbon::UtcTime to) const {
  std::vector<carbon::LedgerRun> result;
  for (const auto& [start, run] : runs_) {
    carbon::EnergyLedger part = run.ledger.part(from, to);
    if (part.empty()) continue;
    result.push_back({.id = run.id,
                      .job = job,
                      .run = run.run,
                      .start = run.start,
                      .user = run.user,
                      .devices = run.devices,
                      .ledger = std::move(part)});
  }
  return result;
}

std::size_t JobLedger::memory() const {
  return runs_.size() * sizeof(carbon::LedgerRun) + intervals_ * kBytesOfInterval;
}

std::map<std::string, std::string> JobLedger::take_changed_parts() {
  std::map<std::string, std::string> parts;
  for (const carbon::UtcTime day : std::exchange(changed_days_, {})) {
    parts[std::string(kParts) + carbon::utc_text(day).substr(0, 10)] =
        carbon::ledger_json(runs({}, day, day + kDay));
  }
  if (std::exchange(user_changed_, false)) {
    parts[kUserPart] = json_line(nlohmann::ordered_json{{"user", user_}});
  }
  return parts;
}

JobLedger JobLedger::read(const std::map<std::string, std::string>& parts,
                          const std::function<void(const std::string&)>& log) {
  JobLedger ledger;
  for (auto part = parts.lower_bound(std::string(kParts));
       part != parts.end() && part->first.starts_with(kParts); ++part) {
    if (part->first == kUserPart) {
      const auto document = parse_json(part->second, part->first);
      const JsonValue* user = document.ok() ? document->find("user") : nullptr;
      if (user != nullptr) ledger.user_ = user->string;
      continue;
    }
    Result<std::vector<carbon::LedgerRun>> day = carbon::parse_ledger(part->second, part->first);
    if (!day.ok()) {
      log(day.error().text());
      continue;
    }
    for (carbon::LedgerRun& run : *day) {
      ledger.intervals_ += run.ledger.size();
      const std::int64_t start = run.start;
      const auto [found, is_new] = ledger.runs_.try_emplace(start, std::move(run));
      if (is_new) continue;
      // Of days of one start, which share no interval. NOLINTNEXTLINE(bugprone-use-after-move)
      if (Status merged = found->second.ledger.merge(run.ledger); !merged.ok()) {
        log(part->first + ": " + merged.error().text());
      }
      found->second.devices = std::max(found->second.devices, run.devices);
    }
  }
  return ledger;
}

}  // namespace harpe::training
