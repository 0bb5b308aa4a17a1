#pragma once
/// \file
/// Which jobs a server hosts: those in memory, and those that the store alone has, of which a
/// summary is known. An id is in one of the two at most.
///
/// On the loop's thread. O(log jobs) but what visits all.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/store/store.h"

namespace harpe {

class HostedTable {
 public:
  /// A job that is in the store alone.
  struct Stored {
    JobSummary summary;
    JobClaim claim;
    bool loading = false;
    std::vector<std::function<void(const Result<HostedPtr>&)>> waiting = {};  ///< to be loaded
  };

  HostedPtr find(const std::string& id) const;
  /// Null where it is in memory, or not here.
  Stored* find_stored(const std::string& id);
  bool holds(const std::string& id) const { return loaded_.contains(id) || stored_.contains(id); }
  std::size_t count() const { return loaded_.size() + stored_.size(); }
  /// By which this server has it; null: it is not here.
  const JobClaim* claim_of(const std::string& id) const;
  const std::map<std::string, HostedPtr>& loaded() const { return loaded_; }
  const std::map<std::string, Stored>& stored() const { return stored_; }
  /// Bytes of those in memory.
  std::size_t memory() const { return memory_; }
  /// Bytes of the jobs in memory that count for `client`.
  std::size_t memory(const std::string& client) const;

  /// It is in memory from now on, in place of what the store alone had.
  void add(const HostedPtr& hosted);
  /// The store alone has it.
  void add_stored(JobSummary summary, const JobClaim& claim);
  /// It is not here any more.
  void erase(const HostedPtr& hosted);
  /// The same of one that the store alone has, which is there. \returns  those who wait for it
  std::vector<std::function<void(const Result<HostedPtr>&)>> erase_stored(const std::string& id);
  /// It may take more memory than before, or less.
  void measure(Hosted& hosted);
  /// Counts it as the job of this client from now on.
  void charge(Hosted& hosted, const std::string& client);

  /// All behind `after`, by id; each is one of both, and the other is null. Ends where `visit`
  /// returns false.
  void visit(const std::string& after,
             const std::function<bool(const std::string& id, const HostedPtr& loaded,
                                      const Stored* stored)>& visit) const;

 private:
  void count(Hosted& hosted, std::size_t memory);

  std::map<std::string, HostedPtr> loaded_;
  std::map<std::string, Stored> stored_;
  std::size_t memory_ = 0;
  std::map<std::string, std::size_t> memory_of_;  ///< by client; clients without any are left out
};

}  // namespace harpe
