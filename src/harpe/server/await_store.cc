#include "harpe/server/await_store.h"

#include <csignal>
#include <ctime>

#include "harpe/service/server_notify.h"
#include "harpe/store/store_url.h"

namespace harpe {
namespace {

constexpr timespec kPause{.tv_sec = 1, .tv_nsec = 0};
/// Tries between lines in the log.
constexpr int kSaidAgain = 60;
/// systemd gives a start 90 s; each try asks for so many more.
constexpr const char* kStillStarting =
    "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for PostgreSQL";

/// SIGTERM and SIGINT are waited for in this scope, and end nothing.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&stops_);
    sigaddset(&stops_, SIGTERM);
    sigaddset(&stops_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stops_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Whether one came within this time.
  bool came(const timespec& within) const { return sigtimedwait(&stops_, nullptr, &within) > 0; }

 private:
  sigset_t stops_{}, before_{};
};

bool is_worth_waiting(const std::string& store, const Error& error) {
  const Result<StoreUrl> url = StoreUrl::parse(store);
  return url.ok() && url->kind == StoreUrl::Kind::kPostgresql &&
         error.code == ErrorCode::kUnavailable;
}

}  // namespace

Result<std::optional<std::unique_ptr<Store>>> await_store(const std::string& url,
                                                          const StoreOptions& options,
                                                          ServerLog& log) {
  const HeldSignals signals;
  for (int tries = 0;; ++tries) {
    Result<std::unique_ptr<Store>> store = Store::open(url, options);
    if (store.ok()) {
      if (tries > 0) log.write("the database is there");
      return std::optional(*std::move(store));
    }
    if (!is_worth_waiting(url, store.error())) return store.error();
    if (tries % kSaidAgain == 0) log.write("waits for its database: " + store.error().text());
    notify_systemd(kStillStarting);
    if (signals.came(kPause)) return std::optional<std::unique_ptr<Store>>();
  }
}

}  // namespace harpe
