#pragma once
/// \file
/// The tables of a PostgreSQL store (`migrations`) in memory, and the statements that stores send
/// to it (sql_store.cc, postgres_store.cc, postgres_lease.cc), one function each. The caller makes
/// them atomic. Not thread-safe. The results depend only on the calls.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/training/store/store.h"

namespace harpe::training {

class SimulatedTables {
 public:
  /// A row of `harpe_owner`. If the server is empty, the job was released.
  struct Owner {
    std::string server;
    std::int64_t epoch = 0;
    friend bool operator==(const Owner&, const Owner&) = default;
  };
  /// A row of `harpe_server`.
  struct Server {
    std::string url;
    std::int64_t beat = 1;
    std::string machine;  ///< empty: not known to others
    bool ended = false;   ///< the process has ended, as others on its machine can prove
  };
  struct Notification {
    std::uint64_t store = 0;  ///< the store that announced it
    std::string text;
  };

  // --- Jobs.

  /// Writes all but the notifications. \param refused  see `write_changes` of sql_store.h
  void write(const StoreChanges& changes, std::set<std::string>& refused) {
    for (const JobSave& save : changes.jobs) {
      if (!refused.contains(save.job.id) && !write_job(save)) refused.insert(save.job.id);
    }
    for (const JobSummary& summary : changes.summaries) {
      if (refused.contains(summary.job)) continue;
      const auto there = summaries_.find(summary.job);
      if (there != summaries_.end()) {
        there->second = stored(summary.job, summary);
      } else {
        refused.insert(summary.job);
      }
    }
    for (const StoredEvent& event : changes.events) {
      if (!refused.contains(event.job)) write_event(event);
    }
    if (changes.clock && (!clock_ || clock_->seconds < changes.clock->seconds)) {
      clock_ = changes.clock;
    }
  }

  void remove_job(const std::string& id) {
    jobs_.erase(id);
    plans_.erase(id);
    parts_.erase(id);
    summaries_.erase(id);
    std::erase_if(events_, [&](const auto& event) { return event.second.job == id; });
    if (const auto row = owners_.find(id); row != owners_.end()) row->second.server.clear();
  }

  /// See `prune_events` of sql_store.h.
  std::int64_t prune(const Retention& keep, const std::string& server) {
    std::vector<std::pair<double, std::int64_t>> old;
    for (const auto& [sequence, event] : events_) {
      const double at = event.stored_at.value_or(event.at);
      if (at < keep.since && !is_others(event.job, server)) old.emplace_back(at, sequence);
    }
    std::ranges::sort(old);
    if (static_cast<std::int64_t>(old.size()) > keep.most_at_once) {
      old.resize(static_cast<std::size_t>(keep.most_at_once));
    }
    for (const auto& [at, sequence] : old) events_.erase(sequence);
    auto total = static_cast<std::int64_t>(old.size());
    std::map<std::string, std::vector<std::int64_t>> by_job;
    for (const auto& [sequence, event] : events_) by_job[event.job].push_back(sequence);
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(keep.most_per_job, 0));
    for (const auto& [job, sequences] : by_job) {
      if (sequences.size() <= most || is_others(job, server)) continue;
      if (keep.jobs && std::ranges::find(*keep.jobs, job) == keep.jobs->end()) continue;
      for (std::size_t i = 0; i < sequences.size() - most; ++i) {
        events_.erase(sequences[i]);
        ++total;
      }
    }
    return total;
  }

  std::vector<StoredJob> jobs() const { return values_of(jobs_); }
  std::vector<JobSummary> summaries() const { return values_of(summaries_); }
  std::optional<StoredJob> job(const std::string& id) const { return value_of(jobs_, id); }
  std::optional<JobSummary> summary(const std::string& id) const {
    return value_of(summaries_, id);
  }
  std::optional<std::string> plans(const std::string& id) const { return value_of(plans_, id); }
  std::map<std::string, std::string> parts(const std::string& id) const {
    return value_of(parts_, id).value_or(std::map<std::string, std::string>());
  }
  std::optional<ClockMark> clock() const { return clock_; }

  std::vector<StoredEvent> events(const std::string& job, std::int64_t after, int limit) const {
    std::vector<StoredEvent> found;
    for (auto at = events_.upper_bound(after); at != events_.end(); ++at) {
      if (static_cast<int>(found.size()) >= limit) break;
      if (at->second.job != job) continue;
      StoredEvent& event = found.emplace_back(at->second);
      event.stored_at.reset();
    }
    return found;
  }

  // --- Owners.

  std::optional<Owner> owner(const std::string& job) const { return value_of(owners_, job); }

  /// Returns true if the job had no owner, and has one now.
  bool add_owner(const std::string& job, const std::string& server) {
    return servers_.contains(server) &&
           owners_.try_emplace(job, Owner{.server = server, .epoch = 1}).second;
  }
  /// Replaces the owner `before` if it is this server or has no lease. Returns true if replaced.
  bool replace_owner(const std::string& job, const Owner& before, const std::string& server) {
    const auto row = owners_.find(job);
    if (row == owners_.end() || row->second != before || !servers_.contains(server) ||
        (before.server != server && servers_.contains(before.server))) {
      return false;
    }
    row->second = Owner{.server = server, .epoch = before.epoch + 1};
    return true;
  }
  void release(const std::string& job, const Owner& owner) {
    const auto row = owners_.find(job);
    if (row != owners_.end() && row->second == owner) row->second.server.clear();
  }

  std::map<std::string, std::string> owners() const {
    std::map<std::string, std::string> urls;
    for (const auto& [job, owner] : owners_) {
      if (const auto row = servers_.find(owner.server); row != servers_.end()) {
        urls[job] = row->second.url;
      }
    }
    return urls;
  }
  std::vector<std::string> ownerless() const {
    std::vector<std::string> ids;
    for (const auto& [id, job] : jobs_) {
      const auto owner = owners_.find(id);
      if (owner == owners_.end() || !servers_.contains(owner->second.server)) ids.push_back(id);
    }
    return ids;
  }

  // --- Servers.

  std::optional<Server> server(const std::string& name) const { return value_of(servers_, name); }
  const std::map<std::string, Server>& servers() const { return servers_; }
  void join(const std::string& name, const Server& row) { servers_.emplace(name, row); }
  /// Returns false if there is no such row.
  bool renew(const std::string& name) {
    const auto row = servers_.find(name);
    if (row == servers_.end()) return false;
    ++row->second.beat;
    return true;
  }
  /// Returns false if there is no such row with this beat.
  bool remove_server(const std::string& name, std::int64_t beat) {
    const auto row = servers_.find(name);
    if (row == servers_.end() || row->second.beat != beat) return false;
    servers_.erase(row);
    return true;
  }
  void leave(const std::string& name) { servers_.erase(name); }
  /// See `SimulatedDatabase::process_ended`.
  void end_process(const std::string& url) {
    for (auto& [name, row] : servers_) row.ended = row.ended || row.url == url;
  }

  // --- Listeners.

  /// Notifications from now on are kept for a listener until it takes them.
  void listen(std::uint64_t listener) { heard_[listener].clear(); }
  void unlisten(std::uint64_t listener) { heard_.erase(listener); }
  void lose_listeners() { heard_.clear(); }
  /// Announces in one transaction. PostgreSQL delivers one of several equal notifications.
  void announce(std::uint64_t store, const std::vector<std::string>& texts) {
    std::set<std::string> said;
    for (const std::string& text : texts) {
      if (!said.insert(text).second) continue;
      for (auto& [listener, notifications] : heard_) notifications.push_back({store, text});
    }
  }
  /// Returns the kept notifications, or nullopt if the listener was lost.
  std::optional<std::deque<Notification>> take(std::uint64_t listener) {
    const auto found = heard_.find(listener);
    if (found == heard_.end()) return std::nullopt;
    return std::exchange(found->second, {});
  }

 private:
  template <class Key, class Value>
  static std::vector<Value> values_of(const std::map<Key, Value>& rows) {
    std::vector<Value> values;
    for (const auto& [key, value] : rows) values.push_back(value);
    return values;
  }
  template <class Value>
  static std::optional<Value> value_of(const std::map<std::string, Value>& rows,
                                       const std::string& key) {
    const auto row = rows.find(key);
    return row != rows.end() ? std::optional(row->second) : std::nullopt;
  }
  static JobSummary stored(const std::string& job, const JobSummary& given) {
    JobSummary summary = given;
    summary.job = job;
    if (summary.ended.value_or(0) < 0) summary.ended.reset();
    return summary;
  }

  /// Returns true if the job was written.
  bool write_job(const JobSave& save) {
    const StoredJob& job = save.job;
    const auto row = jobs_.find(job.id);
    if (row == jobs_.end()) {
      if (save.is_there) return false;
      jobs_.emplace(job.id, job);
    } else {
      const StoredJob& had = row->second;
      if (had.revision > job.revision || (had.revision == job.revision && had.state != job.state)) {
        return false;
      }
      row->second = job;
    }
    if (save.summary) {
      summaries_[job.id] = stored(job.id, *save.summary);
    } else {
      summaries_.try_emplace(job.id, JobSummary{job.id, "", job.updated, std::nullopt});
    }
    if (save.plans) plans_[job.id] = *save.plans;
    for (const auto& [name, text] : save.parts) parts_[job.id][name] = text;
    return true;
  }

  void write_event(const StoredEvent& event) {
    const bool there = std::ranges::any_of(events_, [&](const auto& one) {
      const StoredEvent& had = one.second;
      return had.job == event.job && had.at == event.at && had.kind == event.kind &&
             had.text == event.text;
    });
    if (there) return;
    StoredEvent& row = events_[++last_sequence_];
    row = event;
    row.sequence = last_sequence_;
  }

  /// Returns true if another server was the last to claim the job.
  bool is_others(const std::string& job, const std::string& server) const {
    const auto row = owners_.find(job);
    return row != owners_.end() && !row->second.server.empty() && row->second.server != server;
  }

  std::map<std::string, StoredJob> jobs_;
  std::map<std::string, std::string> plans_;
  std::map<std::string, std::map<std::string, std::string>> parts_;
  std::map<std::string, JobSummary> summaries_;
  std::map<std::int64_t, StoredEvent> events_;  ///< by sequence
  std::int64_t last_sequence_ = 0;
  std::optional<ClockMark> clock_;
  std::map<std::string, Owner> owners_;    ///< by job
  std::map<std::string, Server> servers_;  ///< by name
  std::map<std::uint64_t, std::deque<Notification>> heard_;
};

}  // namespace harpe::training
