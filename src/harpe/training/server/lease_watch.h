#pragma once
/// \file
/// The lease that all claims of a server stand on: whether it holds, and that it has changed.

#include <cstdint>
#include <functional>
#include <string>

#include "harpe/training/store/store.h"

namespace harpe {

/// On the loop's thread.
class LeaseWatch {
 public:
  /// \param store  null: nothing is shared, and every claim holds; must outlive this
  LeaseWatch(Store* store, std::function<void(const std::string&)> log);

  bool is_held() const { return store_ == nullptr || store_->lease().held; }
  /// Whether a job may be commanded by this claim: to be asked right before it is.
  bool covers(const JobClaim& claim) const;

  /// Looks again: whether the lease has been lost, or is there again, or is another one.
  bool look();
  /// Whether the claim is of the lease that was last looked at, held or not; otherwise it is lost
  /// for good.
  bool has(const JobClaim& claim) const { return claim.tenure == seen_.tenure; }

 private:
  Store* store_;
  std::function<void(const std::string&)> log_;
  LeaseState seen_;
};

}  // namespace harpe
