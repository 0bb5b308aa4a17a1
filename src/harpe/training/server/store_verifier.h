#pragma once
/// \file
/// Looks for damage in the store, which takes as long as it takes, on a thread of its own.

#include <functional>
#include <memory>
#include <string>

#include "harpe/training/server/loop_work.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// On the loop's thread.
class StoreVerifier {
 public:
  /// \param store  null: there is none to be damaged
  StoreVerifier(Loop& loop, Store* store, std::function<void(const std::string&)> log,
                const MakeWorkers& make_workers);

  void verify();
  /// What was found; empty: nothing, so far.
  const std::string& damage() const { return damage_; }

 private:
  Store* store_;
  std::function<void(const std::string&)> log_;
  std::string damage_;
  LoopWork work_;
  std::unique_ptr<Workers> worker_;  // last: its thread ends before what it works on goes
};

}  // namespace harpe
