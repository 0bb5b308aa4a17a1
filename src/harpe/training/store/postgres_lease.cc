#include "harpe/training/store/postgres_lease.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "harpe/base/random_id.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::training {
namespace {

/// Removes a server only at the beat that was read: a server with a newer beat keeps its row.
constexpr const char* kRemove = "DELETE FROM harpe_server WHERE server = $1 AND beat = $2::bigint";

}  // namespace

ServerRow read_server(const PostgresRows& rows, int row, int first_column) {
  int column = first_column;
  ServerRow server;
  server.seen.server = rows.text(row, column++);
  server.seen.beat = rows.integer(row, column++);
  server.url = rows.text(row, column++);
  server.process.boot = rows.text(row, column++);
  server.process.namespaces = rows.text(row, column++);
  server.process.pid = rows.integer(row, column++);
  server.process.started = rows.integer(row, column);
  return server;
}

PostgresLease::PostgresLease(const StoreUrl& url, const StoreOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : system_clock()),
      session_(url, std::min(options.timeout, options.lease.lease * kShareOfStatement)),
      lease_(options.lease, [] { return random_id(8); }) {}

PostgresLease::~PostgresLease() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    stop_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (lease_.server().empty()) return;
  // If this fails, the lease expires by itself.
  if (!session_.is_alive() && !session_.connect().ok()) return;
  (void)session_.query("DELETE FROM harpe_server WHERE server = $1", {lease_.server()});
}

Status PostgresLease::start() {
  HARPE_TRY(step());
  thread_ = std::thread([this] { run(); });
  return ok_status();
}

LeaseState PostgresLease::state() const {
  const MutexLock lock(mutex_);
  return {.held = lease_.held(clock_.now()), .tenure = lease_.tenure()};
}

PostgresLease::Member PostgresLease::member() const {
  const MutexLock lock(mutex_);
  return {.server = lease_.server(), .tenure = lease_.tenure()};
}

void PostgresLease::run() {
  MutexLock lock(mutex_);
  bool good = true;
  while (true) {
    const Instant now = clock_.now();
    const Seconds pause = good ? lease_.wake(now) - now : options_.reconnect_pause;
    stop_.wait_for(mutex_, std::chrono::duration<double>(pause.value),
                   [this]() HARPE_REQUIRES(mutex_) { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    good = step().ok();
    lock.lock();
  }
}

Status PostgresLease::step() {
  if (!session_.is_alive()) {
    HARPE_TRY(session_.connect());
  }
  while (true) {
    MutexLock lock(mutex_);
    const std::optional<LeaseStep> next = lease_.next(clock_.now());
    lock.unlock();
    if (!next) return ok_status();
    HARPE_TRY(execute(*next));
  }
}

Status PostgresLease::execute(const LeaseStep& step) {
  switch (step.kind) {
    case LeaseStep::Kind::kJoin:
      return tell(session_.query(
          "INSERT INTO harpe_server (server, url, beat, boot, namespaces, pid, started) "
          "VALUES ($1, $2, 1, $3, $4, $5::bigint, $6::bigint)",
          {step.server, options_.url, process_.boot, process_.namespaces, process_.pid,
           process_.started}));
    case LeaseStep::Kind::kRenew:
      return tell(session_.query("UPDATE harpe_server SET beat = beat + 1 WHERE server = $1",
                                 {step.server}));
    case LeaseStep::Kind::kRemove:
      return tell(session_.query(kRemove, {step.server, step.beat}));
    case LeaseStep::Kind::kLook:
      break;
  }
  return look(step.server);
}

Status PostgresLease::tell(const Result<PostgresRows>& written) {
  const MutexLock lock(mutex_);
  if (!written.ok()) {
    lease_.failed();
    return written.error();
  }
  lease_.written(written->changed() == 1);
  return ok_status();
}

Status PostgresLease::look(const std::string& me) {
  const std::string statement =
      std::string("SELECT ") + kServerColumns + " FROM harpe_server s WHERE s.server <> $1";
  const auto rows = session_.query(statement.c_str(), {me});
  if (!rows.ok()) return tell(rows);
  std::vector<SeenBeat> seen;
  for (int i = 0; i < rows->size(); ++i) {
    const ServerRow row = read_server(*rows, i);
    seen.push_back(row.seen);
    seen.back().gone = is_proven_gone(row.process, process_);
  }
  const MutexLock lock(mutex_);
  lease_.looked(seen, clock_.now());
  return ok_status();
}

Result<bool> PostgresLease::remove_if_over(PostgresSession& session, const ServerRow& row) {
  SeenBeat seen = row.seen;
  seen.gone = is_proven_gone(row.process, process_);
  {
    const MutexLock lock(mutex_);
    if (!lease_.may_remove(seen, clock_.now())) return false;
  }
  const auto removed = HARPE_TRY(session.query(kRemove, {seen.server, seen.beat}));
  return removed.changed() == 1;
}

}  // namespace harpe::training
