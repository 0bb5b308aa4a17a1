// Random lives of several servers over the simulated database, with faults: the guarantees of
// ownership hold in all of them, and a seed reproduces its life.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "harpe/base/scheduler_testing.h"
#include "harpe/base/text.h"
#include "harpe/training/store/simulated_store_testing.h"

namespace harpe::training {
namespace {

/// Three servers that claim, release, save and remove jobs, and are killed or end and start again.
/// Records all calls and their results.
class RandomLife {
 public:
  explicit RandomLife(unsigned seed) : random_(seed) {
    database_.on_call = [this](const StoreCall& call) { return fault_of(call); };
    for (int i = 0; i < 3; ++i) {
      scheduler_.start([this, i] { serve("http://" + std::to_string(i)); });
    }
    while (!scheduler_.is_idle()) {
      clock_.sleep_until(clock_.now() + Seconds{uniform(7)});
      if (chance(0.1)) database_.restart();
      if (chance(0.5)) database_.execute_late();
    }
  }

  const std::string& story() const { return story_; }
  /// Returns the violations found.
  const std::string& wrong() const { return wrong_; }
  int saves() const { return saves_; }
  int moves() const { return moves_; }

 private:
  /// The jobs that a server believes it owns.
  struct Belief {
    const Store* store = nullptr;
    std::map<std::string, JobClaim> claims = {};

    bool commands(const std::string& job) const {
      const auto claim = claims.find(job);
      if (store == nullptr || claim == claims.end()) return false;
      const LeaseState lease = store->lease();
      return lease.held && lease.tenure == claim->second.tenure;
    }
  };

  bool chance(double probability) { return uniform(1) < probability; }
  double uniform(double most) { return std::uniform_real_distribution<double>(0, most)(random_); }
  void tell(const std::string& what) {
    story_ += shortest((clock_.now() - Instant{}).value) + " " + what + "\n";
  }

  StoreFault fault_of(const StoreCall& call) {
    StoreFault fault{.before = Seconds{uniform(0.02)}, .after = Seconds{uniform(0.02)}};
    if (chance(0.05)) fault.outcome = static_cast<StoreFault::Outcome>(random_() % 8);
    if (call.kind == StoreCall::Kind::kRelease && chance(0.1)) {
      fault.outcome = StoreFault::Outcome::kLate;
    }
    // Sometimes one server is cut off for longer than a lease.
    if (chance(0.002)) cut_[call.url] = clock_.now() + 20_s;
    if (cut_[call.url] > clock_.now()) fault.outcome = StoreFault::Outcome::kLostBefore;
    tell(call.url + " calls " + std::to_string(static_cast<int>(call.kind)));
    return fault;
  }

  void serve(const std::string& url) {
    StoreOptions options{.timeout = 0.5_s, .reconnect_pause = 0.02_s, .url = url};
    options.clock = &clock_;
    for (int life = 0; life < 3; ++life) {
      const auto dead = std::make_shared<bool>(false);  // read by threads that end later
      StoreProcess process{
          .start_thread = [this](auto body) { scheduler_.start(std::move(body)); },
          .dead = [dead] { return *dead; },
      };
      auto store = SimulatedStore::open(database_, options, std::move(process));
      tell(url + " opens: " + (store.ok() ? "yes" : store.error().text()));
      if (store.ok()) beliefs_[url].store = store->get();
      for (int i = 0; store.ok() && i < 100; ++i) {
        work(url, **store);
        clock_.sleep_until(clock_.now() + Seconds{uniform(0.5)});
      }
      beliefs_[url] = {};
      *dead = chance(0.5);
    }
  }

  void work(const std::string& url, Store& store) {
    const std::string job = "job " + std::to_string(random_() % 3);
    std::map<std::string, JobClaim>& mine = beliefs_[url].claims;
    if (chance(0.2)) {
      mine.erase(job);
      tell(url + " gives " + job + " up");
      (void)(chance(0.3) ? store.remove(job) : store.release(job));
      return;
    }
    const auto claimed = store.claim(job);
    if (!claimed.ok() || !*claimed) {
      mine.erase(job);
      tell(url + " does not get " + job);
      return;
    }
    mine[job] = **claimed;
    const std::int64_t epoch = (*claimed)->epoch;
    tell(url + " has " + job + " by " + std::to_string(epoch));
    if (beliefs_[url].commands(job)) check(url, job, epoch);
    const auto saved = store.write({.jobs = {{{job, url, ++revision_, 1.0}, std::nullopt}},
                                    .events = {{0, 1.0 * revision_, job, "kind", url}},
                                    .notifications = {job},
                                    .epochs = {{job, epoch}}});
    tell(url + " saves: " + (saved.ok() ? std::to_string(saved->size()) : saved.error().text()));
    saves_ += saved.ok() && saved->empty() ? 1 : 0;
  }

  void check(const std::string& url, const std::string& job, std::int64_t epoch) {
    for (const auto& [other, belief] : beliefs_) {
      if (other != url && belief.commands(job)) wrong_ += url + " and " + other + " own " + job;
    }
    auto& [last, owner] = owners_[job];
    if (epoch < last || (epoch == last && owner != url)) {
      wrong_ += url + " has " + job + " by an epoch that is over";
    }
    moves_ += owner != url ? 1 : 0;
    last = epoch;
    owner = url;
  }

  std::mt19937 random_;
  std::string story_, wrong_;
  std::map<std::string, Instant> cut_;
  std::map<std::string, Belief> beliefs_;                               ///< by URL
  std::map<std::string, std::pair<std::int64_t, std::string>> owners_;  ///< last one of each job
  int revision_ = 0, saves_ = 0, moves_ = 0;
  SimulatedDatabase database_;
  Scheduler scheduler_;
  SchedulerClock clock_{scheduler_};
};

TEST(SimulatedLife, IsTheSameAgainFromASeed) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  const RandomLife life(seed), again(seed), another(seed + 1);
  EXPECT_EQ(life.story(), again.story());
  EXPECT_NE(life.story(), another.story());
}

TEST(SimulatedLife, HasOneOwnerOfAJobAtATimeAndEpochsThatRise) {
  const unsigned first = std::random_device{}();
  std::printf("seed %u\n", first);
  constexpr int kLives = HARPE_UNDER_SANITIZERS != 0 ? 3 : 20;
  int saves = 0, moves = 0;
  for (unsigned seed = first; seed < first + kLives; ++seed) {
    const RandomLife life(seed);
    ASSERT_EQ(life.wrong(), "") << "seed " << seed;
    saves += life.saves();
    moves += life.moves();
  }
  EXPECT_GT(saves, 50 * kLives);
  EXPECT_GT(moves, 10 * kLives);
}

}  // namespace
}  // namespace harpe::training
