#pragma once
/// \file
/// Reads stored jobs into memory, each kind in its own way: which kind one is stands in the
/// "format" of its state, such as "harpe.job/2".

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

class JobRestorer {
 public:
  /// Makes a job of what is stored of it; called from any thread. What the store fails at is
  /// `kUnavailable`, what cannot be read any other error.
  using Read = std::function<Result<HostedPtr>(Store& store, const StoredJob& stored, Seconds now)>;

  /// Before the first `restore`. \param formats  how the formats of this kind begin: "harpe.job/"
  void add(std::string formats, Read read) {
    kinds_.emplace_back(std::move(formats), std::move(read));
  }

  /// The job, asleep; null: the store has none. One whose state names no format of any kind is read
  /// as the first kind, which says what is wrong with it. From any thread.
  Result<HostedPtr> restore(Store& store, const std::string& id, Seconds now) const;

 private:
  std::vector<std::pair<std::string, Read>> kinds_;
};

}  // namespace harpe::training
