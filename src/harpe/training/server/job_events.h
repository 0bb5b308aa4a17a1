#pragma once
/// \file
/// What happens to a job, as server-sent events. A client that is slow is sent the newest state
/// when it is ready again, not what was between.

#include <memory>
#include <optional>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/job_registry.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {

/// One stage of one pipeline.
struct StageCoordinates {
  int pipeline = 0;
  int stage = 0;
};

/// Who listens to the events of a job.
struct EventListener {
  std::optional<StageCoordinates> coordinates = {};  ///< none: who wants no assignments
  /// The rank that it is, by its session; empty: any listener.
  int tensor = 0;
  std::string session = {};
};

/// `event: assignments` (where a stage is given), `event: phase` and `event: log`: first the
/// present state, then changes; a comment `: hb` when nothing else was sent for 15 seconds. It ends
/// where this server may not command the job any more, where the job is another life of itself, and
/// where the rank that listens does not hold its place any more: whatever comes, a comment too,
/// says that the rank is governed. Made, and used, on the loop's thread. \param job  must not be
/// null
std::shared_ptr<net::EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                             EventListener listener);

/// The assignments of a stage of a pipeline, now, as `assignments_json` writes them. The job must
/// have the stage.
std::string assignments_text(HostedJob& job, StageCoordinates coordinates);
/// Says by which life of the job, and by which claim, a response holds.
RankResponse rank_response(const HostedJob& job);

}  // namespace harpe::training
