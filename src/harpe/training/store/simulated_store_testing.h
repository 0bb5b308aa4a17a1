#pragma once
/// \file
/// The store of one server over a `SimulatedDatabase`: works like PostgresStore, statement by
/// statement, with a given clock. See simulated_database_testing.h.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harpe/device/hw/system_clock.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/simulated_claims_testing.h"
#include "harpe/training/store/simulated_database_testing.h"
#include "harpe/training/store/simulated_lease_testing.h"
#include "harpe/training/store/simulated_listener_testing.h"
#include "harpe/training/store/simulated_session_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Thread-safe. Calls wait for each other by sleeping, as in the real store. The lease and the
/// listener have their own threads and connections.
class SimulatedStore final : public Store {
 public:
  using Tables = SimulatedTables;

  /// Connects and joins the servers of the database, as `Store::open` does. Returns an error if a
  /// fault prevents this. All `options` but the name are used; `options.clock` is the clock of the
  /// server's machine. The database, the clock and the references in `process` must outlive the
  /// started threads: a thread ends when it next wakes up after the store is gone, and uses nothing
  /// of the store from its destruction on.
  ///
  /// Orderly destruction releases the lease, as in the real store. In a dead process, every call
  /// returns `kUnavailable` without accessing the database, and nothing is released: its row
  /// remains.
  static Result<std::unique_ptr<Store>> open(SimulatedDatabase& database,
                                             const StoreOptions& options, StoreProcess process) {
    if (!is_storable(options.url)) {
      return Error::invalid("the URL of the server is not UTF-8 text");
    }
    StoreOptions complete = options;
    if (complete.clock == nullptr) complete.clock = &system_clock();
    std::unique_ptr<SimulatedStore> store(
        new SimulatedStore(database, complete, std::move(process)));
    HARPE_TRY(store->open());
    return std::unique_ptr<Store>(std::move(store));
  }

  SimulatedStore(const SimulatedStore&) = delete;
  SimulatedStore& operator=(const SimulatedStore&) = delete;
  ~SimulatedStore() override {
    if (listener_) listener_->stop();  // it may call this store
    if (lease_) lease_->stop();
  }

  Result<std::vector<std::string>> write(const StoreChanges& changes) override {
    HARPE_TRY(check_changes(changes));
    return call<std::vector<std::string>>([&] {
      return session_.run(Kind::kWrite, [&](Tables& tables) {
        std::set<std::string> refused = fenced(tables, changes);
        tables.write(changes, refused);
        tables.announce(number_, changes.notifications);
        return std::vector<std::string>(refused.begin(), refused.end());
      });
    });
  }

  Result<std::vector<StoredJob>> jobs() override {
    return read([](const Tables& tables) { return tables.jobs(); });
  }
  Result<std::optional<StoredJob>> job(const std::string& id) override {
    HARPE_TRY(check_job_id(id));
    return read([&](const Tables& tables) { return tables.job(id); });
  }
  Result<std::optional<std::string>> plans(const std::string& id) override {
    HARPE_TRY(check_job_id(id));
    return read([&](const Tables& tables) { return tables.plans(id); });
  }
  Result<std::map<std::string, std::string>> parts(const std::string& id) override {
    HARPE_TRY(check_job_id(id));
    return read([&](const Tables& tables) { return tables.parts(id); });
  }
  Result<std::vector<JobSummary>> summaries() override {
    return read([](const Tables& tables) { return tables.summaries(); });
  }
  Result<std::optional<JobSummary>> summary(const std::string& id) override {
    HARPE_TRY(check_job_id(id));
    return read([&](const Tables& tables) { return tables.summary(id); });
  }
  Result<std::optional<ClockMark>> clock() override {
    return read([](const Tables& tables) { return tables.clock(); });
  }

  Status remove(const std::string& id, std::optional<std::int64_t> epoch) override {
    if (Status checked = check_job_id(id); !checked.ok()) return checked;
    return call<std::monostate>([&]() -> Status {
      const Result<bool> removed = session_.run(Kind::kRemoveJob, [&](Tables& tables) {
        const bool mine = claims_.fence(tables, id, epoch);
        if (!mine) return false;
        claims_.doubt(id);
        tables.remove_job(id);
        return true;
      });
      if (!removed.ok()) return removed.error();
      if (!*removed) {
        return Error::of(
            ErrorCode::kConflict,
            "job " + id + " belongs to another server: remove it there, or claim it first");
      }
      claims_.forget(id);
      return ok_status();
    });
  }

  Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                          int limit) override {
    HARPE_TRY(check_subject(job));
    return read([&](const Tables& tables) { return tables.events(job, after, limit); });
  }

  Result<std::int64_t> prune(const Retention& keep) override {
    HARPE_TRY(check_retention(keep));
    return call<std::int64_t>([&] {
      const std::string me = lease_ ? lease_->member().server : std::string();
      return session_.run(Kind::kPrune, [&](Tables& tables) { return tables.prune(keep, me); });
    });
  }

  Result<std::optional<JobClaim>> claim(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    return call<std::optional<JobClaim>>([&] { return claims_.claim(job); });
  }
  Status release(const std::string& job) override {
    return call<std::monostate>([&] { return claims_.release(job); });
  }
  LeaseState lease() const override {
    return lease_ && !process_.is_dead() ? lease_->state() : LeaseState();
  }
  Result<std::optional<JobOwner>> owner(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    return call<std::optional<JobOwner>>([&] { return claims_.owner(job); });
  }
  Result<std::map<std::string, std::string>> owners() override {
    return call<std::map<std::string, std::string>>([&] { return claims_.owners(); });
  }
  Result<std::vector<std::string>> ownerless() override {
    return call<std::vector<std::string>>([&] { return claims_.ownerless(); });
  }

  Status notify(const std::string& text) override {
    if (Status checked = check_notification(text); !checked.ok()) return checked;
    return call<std::monostate>([&] {
      return session_.run(Kind::kNotify, [&](Tables& tables) {
        tables.announce(number_, {text});
        return std::monostate();
      });
    });
  }

  Status listen(std::function<void(const StoreNotification&)> hear) override {
    const SimulatedQueue::Turn turn(listening_, process_);
    if (process_.is_dead()) return process_is_dead();
    if (listener_) listener_->stop();
    listener_.reset();
    if (!hear) return ok_status();
    listener_ = std::make_shared<SimulatedListener>(database_, process_, options_, number_,
                                                    std::move(hear));
    listener_->start();
    return ok_status();
  }

  Status check() override {
    return call<std::monostate>(
        [&] { return session_.run(Kind::kCheck, [](Tables&) { return std::monostate(); }); });
  }
  Status verify() override { return ok_status(); }
  std::string description() const override { return "simulated database"; }

 private:
  using Kind = StoreCall::Kind;

  SimulatedStore(SimulatedDatabase& database, const StoreOptions& options, StoreProcess process)
      : database_(database),
        process_(std::move(process)),
        options_(options),
        number_(database.new_number()),
        lease_(options.url.empty()
                   ? nullptr
                   : std::make_shared<SimulatedLease>(database, process_, options_)),
        calls_(*options_.clock),
        session_(database, process_, *options_.clock, options_.url, StoreCall::Line::kCalls,
                 options_.timeout, &calls_),
        claims_(session_, lease_.get()),
        listening_(*options_.clock) {}

  Status open() {
    if (Status connected = session_.connect(); !connected.ok()) return connected;
    const auto opened = session_.run(Kind::kOpen, [](Tables&) { return std::monostate(); });
    if (!opened.ok()) return opened.error();
    return lease_ ? lease_->start() : ok_status();
  }

  /// Connects if there is no connection, at most once per `reconnect_pause`.
  Status ready() {
    if (session_.is_alive()) return ok_status();
    Clock& clock = *options_.clock;
    if (failed_ && clock.now() - failed_->first < options_.reconnect_pause) return failed_->second;
    Status done = session_.connect();
    if (!done.ok()) {
      failed_.emplace(clock.now(), done.error());
      return done;
    }
    failed_.reset();
    return ok_status();
  }

  /// Runs `body` over a connection, when it is its turn.
  template <class Value, class Body>
  Result<Value> call(const Body& body) {
    const SimulatedQueue::Turn turn(calls_, process_);
    if (process_.is_dead()) return process_is_dead();
    HARPE_TRY(ready());
    return body();
  }

  template <class Body>
  auto read(const Body& body) -> Result<decltype(body(std::declval<const Tables&>()))> {
    using Value = decltype(body(std::declval<const Tables&>()));
    return call<Value>(
        [&] { return session_.run(Kind::kRead, [&](Tables& tables) { return body(tables); }); });
  }

  /// Returns the jobs in `changes` that this store may not change.
  std::set<std::string> fenced(const Tables& tables, const StoreChanges& changes) const {
    std::set<std::string> touched, refused;
    for (const JobSave& save : changes.jobs) touched.insert(save.job.id);
    for (const JobSummary& summary : changes.summaries) touched.insert(summary.job);
    for (const StoredEvent& event : changes.events) touched.insert(event.job);
    touched.erase("");
    for (const std::string& id : touched) {
      const auto by = changes.epochs.find(id);
      const bool mine = claims_.fence(
          tables, id, by != changes.epochs.end() ? std::optional(by->second) : std::nullopt);
      if (!mine) refused.insert(id);
    }
    return refused;
  }

  SimulatedDatabase& database_;
  const StoreProcess process_;
  const StoreOptions options_;
  const std::uint64_t number_;                   ///< identifies its notifications
  const std::shared_ptr<SimulatedLease> lease_;  ///< null: claims nothing
  SimulatedQueue calls_;                         ///< for the members below
  SimulatedSession session_;
  SimulatedClaims claims_;
  std::optional<std::pair<Instant, Error>> failed_;  ///< the last attempt to connect
  SimulatedQueue listening_;                         ///< for the members below
  std::shared_ptr<SimulatedListener> listener_;
};

}  // namespace harpe::training
