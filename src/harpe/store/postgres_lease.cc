#include "harpe/store/postgres_lease.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "harpe/hw/system_clock.h"

namespace harpe {
namespace {

/// Of a lease that one statement may take: two attempts then fit into what is left of it.
constexpr double kShareOfStatement = 0.25;

/// 16 letters that no other server has had or will have.
std::string new_identity() {
  std::random_device random;
  std::string identity;
  while (identity.size() < 16) identity += static_cast<char>('a' + random() % 26);
  return identity;
}

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
      lease_(options.lease) {}

PostgresLease::~PostgresLease() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (member_.server.empty() || !session_.is_alive()) return;
  // Where this fails the lease runs out by itself.
  (void)session_.query("DELETE FROM harpe_server WHERE server = $1", {member_.server});
}

Status PostgresLease::start() {
  if (Status done = beat(); !done) return done;
  thread_ = std::thread([this] { run(); });
  return ok_status();
}

Lease PostgresLease::state() const {
  const std::lock_guard lock(mutex_);
  return {.held = lease_.held(clock_.now()), .tenure = member_.tenure};
}

PostgresLease::Member PostgresLease::member() const {
  const std::lock_guard lock(mutex_);
  return member_;
}

void PostgresLease::run() {
  std::unique_lock lock(mutex_);
  Seconds pause = lease_.next_beat(clock_.now()) - clock_.now();
  while (true) {
    stop_.wait_for(lock, std::chrono::duration<double>(pause.value), [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    const bool done = beat().ok();
    lock.lock();
    const Instant now = clock_.now();
    pause = done ? lease_.next_beat(now) - now : options_.reconnect_pause;
  }
}

Status PostgresLease::beat() {
  if (!session_.is_alive()) {
    if (Status connected = session_.connect(); !connected) return connected;
  }
  if (member().server.empty()) {
    if (Status joined = join(); !joined) return joined;
  } else if (Status renewed = renew(); !renewed) {
    return renewed;
  }
  return look_around();
}

Status PostgresLease::join() {
  const std::string server = new_identity();
  {
    const std::lock_guard lock(mutex_);
    lease_.sending(clock_.now());
  }
  const auto joined = session_.query(
      "INSERT INTO harpe_server (server, url, beat, boot, namespaces, pid, started) "
      "VALUES ($1, $2, 1, $3, $4, $5::bigint, $6::bigint)",
      {server, options_.url, process_.boot, process_.namespaces, process_.pid, process_.started});
  const std::lock_guard lock(mutex_);
  if (!joined) {
    lease_.failed();
    return joined.error();
  }
  lease_.acknowledged();
  member_.server = server;
  return ok_status();
}

Status PostgresLease::renew() {
  const std::string server = member().server;
  {
    const std::lock_guard lock(mutex_);
    lease_.sending(clock_.now());
  }
  const auto renewed =
      session_.query("UPDATE harpe_server SET beat = beat + 1 WHERE server = $1", {server});
  {
    const std::lock_guard lock(mutex_);
    if (!renewed) {
      lease_.failed();
      return renewed.error();
    }
    if (renewed->changed() == 1) {
      lease_.acknowledged();
      return ok_status();
    }
    // Another server has taken this one for gone, and may have its jobs.
    lease_.lost();
    member_.server.clear();
    ++member_.tenure;
  }
  return join();
}

Status PostgresLease::look_around() {
  const std::string statement =
      std::string("SELECT ") + kServerColumns + " FROM harpe_server s WHERE s.server <> $1";
  const auto rows = session_.query(statement.c_str(), {member().server});
  if (!rows) return rows.error();
  std::vector<ServerRow> servers;
  std::vector<SeenBeat> beats;
  for (int i = 0; i < rows->size(); ++i) {
    servers.push_back(read_server(*rows, i));
    beats.push_back(servers.back().seen);
  }
  {
    const std::lock_guard lock(mutex_);
    lease_.saw(beats, clock_.now());
  }
  for (const ServerRow& server : servers) {
    if (const auto removed = remove_if_over(session_, server); !removed) return removed.error();
  }
  return ok_status();
}

Result<bool> PostgresLease::remove_if_over(PostgresSession& session, const ServerRow& row) {
  bool over = is_proven_gone(row.process, process_);
  if (!over) {
    const std::lock_guard lock(mutex_);
    over = lease_.may_remove(row.seen, clock_.now());
  }
  if (!over) return false;
  // A beat that has come meanwhile keeps it.
  const auto removed =
      session.query("DELETE FROM harpe_server WHERE server = $1 AND beat = $2::bigint",
                    {row.seen.server, row.seen.beat});
  if (!removed) return removed.error();
  return removed->changed() == 1;
}

}  // namespace harpe
