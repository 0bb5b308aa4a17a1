// The model of a database compared with a real one: the same random calls get the same responses
// and leave the same data.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/training/store/shared_database_testing.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

/// Returns a copy: a loop over a part of a temporary would refer to a destroyed object.
template <class T>
T value_of(Result<T> result) {
  return *std::move(result);
}

/// Random calls of two servers, one after the other, with each response as text.
class RandomCalls {
 public:
  RandomCalls(SharedDatabase& database, unsigned seed) : database_(database), random_(seed) {
    for (int i = 0; i < 2; ++i) reopen(i);
  }

  std::string next() {
    const int who = below(2);
    Store& store = *stores_[static_cast<std::size_t>(who)];
    const std::string id = "job " + std::to_string(below(3));
    const std::string name = std::to_string(who) + " ";
    switch (below(14)) {
      case 0:
      case 1:
      case 2: {
        const auto claimed = *store.claim(id);
        if (claimed) claims_[id].push_back(claimed->epoch);
        return name + "claims " + id + ": " + (claimed ? std::to_string(claimed->epoch) : "no");
      }
      case 3:
        return name + "releases " + id + ": " + error_of(store.release(id));
      case 4:
        return name + "removes " + id + ": " + error_of(store.remove(id, epoch_of(id)));
      case 5: {
        const auto pruned = *store.prune(retention());
        return name + "prunes " + std::to_string(pruned);
      }
      case 6:
        if (below(3) == 0) reopen(who);
        return name + "is opened";
      case 7:
        if (below(3) == 0) database_.end_all_connections();
        return "connections end";
      default:
        return name + "writes " + id + ": " + write(store, id);
    }
  }

  /// Returns all data of the stores, as text.
  std::string state() {
    std::string text;
    for (const auto& store : stores_) {
      for (const StoredJob& job : value_of(store->jobs())) {
        text += "\n" + job.id + " " + std::to_string(job.revision) + " " + job.state + " " +
                shortest(job.updated) + " plans " + value_of(store->plans(job.id)).value_or("none");
        for (const auto& [part, said] : value_of(store->parts(job.id)))
          text += " " + part + "=" + said;
      }
      for (const JobSummary& summary : value_of(store->summaries())) {
        text += "\nsummary of " + summary.job + ": " + summary.text + " " +
                shortest(summary.heard) + " " + shortest(summary.ended.value_or(-1));
      }
      for (const std::string job : {"", "job 0", "job 1", "job 2"}) {
        for (const StoredEvent& event : value_of(store->events(job, 0, 1000))) {
          text += "\nevent " + std::to_string(event.sequence) + " of " + event.job + " at " +
                  shortest(event.at) + ": " + event.kind + " " + event.text;
        }
        if (job.empty()) continue;
        if (const auto owner = value_of(store->owner(job))) {
          text += "\n" + job + " is of " + owner->url + (owner->own ? ", own" : "");
        }
      }
      for (const auto& [job, url] : value_of(store->owners()))
        text += "\nowner of " + job + ": " + url;
      for (const std::string& job : value_of(store->ownerless())) text += "\nof no owner: " + job;
      if (const auto mark = value_of(store->clock())) {
        text += "\nclock " + shortest(mark->seconds) + " " + mark->boot;
      }
    }
    return text;
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  void reopen(int who) {
    auto& store = stores_[static_cast<std::size_t>(who)];
    store.reset();
    StoreOptions options{.reconnect_pause = 0.02_s};
    options.url = "http://" + std::to_string(who);
    store = database_.open(options);
  }

  /// Returns the epoch of an earlier claim, or nullopt.
  std::optional<std::int64_t> epoch_of(const std::string& id) {
    const std::vector<std::int64_t>& had = claims_[id];
    if (had.empty() || below(3) == 0) return std::nullopt;
    return below(4) == 0 ? had[static_cast<std::size_t>(below(static_cast<int>(had.size())))]
                         : had.back();
  }

  Retention retention() {
    Retention keep{.since = static_cast<double>(below(100)), .most_per_job = below(5)};
    if (below(2) == 0) keep.jobs = std::vector<std::string>{"job 1", "", "job 1"};
    if (below(2) == 0) keep.most_at_once = below(3);
    return keep;
  }

  std::string write(Store& store, const std::string& id) {
    ++time_;
    StoreChanges changes;
    JobSave save{.job = {id, std::to_string(below(2)), below(1 + time_ / 4), 1.0 * time_},
                 .plans = std::nullopt};
    if (below(2) == 0) save.plans = std::to_string(time_);
    if (below(2) == 0) save.parts[std::to_string(below(2))] = std::to_string(time_);
    if (below(3) == 0) save.summary = summary(id);
    save.is_there = below(3) == 0;
    if (below(4) != 0) changes.jobs.push_back(save);
    if (below(5) == 0) changes.jobs.push_back(save);
    if (below(4) == 0) changes.summaries.push_back(summary("job " + std::to_string(below(3))));
    for (int i = below(4); i > 0; --i) {
      changes.events.push_back({.at = static_cast<double>(below(3)),
                                .job = below(3) == 0 ? "" : "job " + std::to_string(below(3)),
                                .kind = "kind",
                                .text = std::to_string(below(2)),
                                .stored_at = 1.0 * time_});
    }
    if (below(3) == 0) changes.clock = ClockMark{1.0 * below(100), std::to_string(time_), 1, 1};
    if (const auto epoch = epoch_of(id)) changes.epochs[id] = *epoch;
    std::string refused;
    for (const std::string& one : value_of(store.write(changes))) refused += one + ",";
    return refused;
  }

  JobSummary summary(const std::string& job) {
    return {job, std::to_string(time_), 1.0 * time_,
            below(2) == 0 ? std::nullopt : std::optional(1.0 * below(3))};
  }

  SharedDatabase& database_;
  std::mt19937 random_;
  std::array<std::unique_ptr<Store>, 2> stores_;
  std::map<std::string, std::vector<std::int64_t>> claims_;
  int time_ = 0;
};

TEST(SimulatedDatabase, AnswersAsPostgreSQLDoesWhateverIsCalled) {
  constexpr int kCalls = HARPE_UNDER_SANITIZERS != 0 ? 60 : 250;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  SharedPostgres postgres;
  SharedSimulation simulation;
  RandomCalls real(postgres, seed), simulated(simulation, seed);
  for (int call = 0; call < kCalls; ++call) {
    const std::string response = real.next();
    ASSERT_EQ(simulated.next(), response) << "call " << call;
    ASSERT_EQ(simulated.state(), real.state()) << "call " << call << ": " << response;
  }
}

}  // namespace
}  // namespace harpe::training
