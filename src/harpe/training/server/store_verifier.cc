#include "harpe/training/server/store_verifier.h"

#include <utility>

namespace harpe {

StoreVerifier::StoreVerifier(Loop& loop, Store* store, std::function<void(const std::string&)> log,
                             const MakeWorkers& make_workers)
    : store_(store),
      log_(std::move(log)),
      work_(loop),
      worker_(make_workers({.threads = 1, .nice = 10})) {}

void StoreVerifier::verify() {
  if (store_ == nullptr) return;
  worker_->run({}, [this] {
    const Status whole = store_->verify();
    if (whole.ok()) return;
    work_.post([this, why = whole.error().text()] {
      damage_ = why;
      log_("the store is damaged: " + why);
    });
  });
}

}  // namespace harpe
