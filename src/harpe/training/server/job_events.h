#pragma once
/// \file
/// The events of a job as server-sent events. A slow client receives only the newest state when it
/// is ready again.

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

/// A client that listens to the events of a job.
struct EventListener {
  std::optional<StageCoordinates> coordinates = {};  ///< nullopt to receive no assignments
  /// The rank that listens, identified by its session; empty for other clients.
  int tensor = 0;
  std::string session = {};
};

/// Returns a stream of `event: assignments` (if a stage is given), `event: phase` and `event: log`:
/// first the current state, then changes; a comment `: hb` if nothing else was sent for 15 seconds.
/// The stream ends when this server may not command the job any more, when the job has a new
/// incarnation, or when the listening rank has lost its place: any data on the stream, even a
/// comment, confirms that the rank is commanded. Created and used on the loop's thread. \param job
/// must not be null
std::shared_ptr<net::EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                             EventListener listener);

/// Returns the current assignments of a stage of a pipeline in the format of `assignments_json`.
/// The stage must exist.
std::string assignments_text(HostedJob& job, StageCoordinates coordinates);
/// Returns the incarnation of the job and the epoch of the claim for which a response is valid.
RankResponse rank_response(const HostedJob& job);

}  // namespace harpe::training
