#include "harpe/training/server/await_store.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "harpe/net/service/server_notify.h"
#include "harpe/training/store/store_url.h"

namespace harpe {
namespace {

constexpr std::chrono::seconds kPause(1);
/// Tries between lines in the log.
constexpr int kTriesBetweenLines = 60;
/// systemd gives a start 90 s. Each try extends that by a minute.
constexpr const char* kStillStarting =
    "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for PostgreSQL";

/// In its scope SIGTERM and SIGINT end the process at once. A handler is needed for the first
/// process of a container, which ignores signals that it does not handle. No job has been served
/// yet, so nothing has to be put in order; the file of a socket is taken over by the next start.
class EndsOnSignals {
 public:
  EndsOnSignals() {
    struct sigaction end{};
    end.sa_handler = [](int) { ::_exit(0); };
    sigaction(SIGTERM, &end, &term_before_);
    sigaction(SIGINT, &end, &int_before_);
  }
  ~EndsOnSignals() {
    sigaction(SIGTERM, &term_before_, nullptr);
    sigaction(SIGINT, &int_before_, nullptr);
  }
  EndsOnSignals(const EndsOnSignals&) = delete;
  EndsOnSignals& operator=(const EndsOnSignals&) = delete;

 private:
  struct sigaction term_before_{}, int_before_{};
};

bool is_worth_waiting(const std::string& store, const Error& error) {
  const Result<StoreUrl> url = StoreUrl::parse(store);
  return url.ok() && url->kind == StoreUrl::Kind::kPostgresql &&
         error.code == ErrorCode::kUnavailable;
}

}  // namespace

Result<std::unique_ptr<Store>> await_store(const std::string& url, const StoreOptions& options,
                                           ServerLog& log, const std::function<void()>& when_away) {
  const EndsOnSignals ends;
  for (int tries = 0;; ++tries) {
    Result<std::unique_ptr<Store>> store = Store::open(url, options);
    if (store.ok() && tries > 0) log.write("the database is there");
    if (store.ok() || !is_worth_waiting(url, store.error())) return store;
    if (tries % kTriesBetweenLines == 0) {
      log.write("waits for its database: " + store.error().text());
    }
    if (tries == 0) when_away();
    notify_systemd(kStillStarting);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace harpe
