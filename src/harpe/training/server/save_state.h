#pragma once
/// \file
/// What a saver knows of one job: how far the store has it, what is to be written of it, and what
/// waits for that.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/training/server/revisions.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// Changed by the saver alone, but for `revisions` of a job that was read from the store.
struct SaveState {
  Revisions revisions;
  bool queued = false;  ///< to be saved
  // Taken from the job, but not written yet.
  std::optional<std::string> plans;
  std::map<std::string, std::string> parts;
  std::vector<StoredEvent> events;
  struct Waiting {
    std::int64_t revision;
    std::function<void(const Status&)> done;
  };
  std::vector<Waiting> waiting;
  int refusals = 0;                ///< of the store, in a row, while it took others
  std::uint64_t last_refusal = 0;  ///< saves that had gone well before the last one
  Instant next_try;                ///< where the store refuses it
};

}  // namespace harpe
