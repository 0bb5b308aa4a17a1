#pragma once
/// \file
/// What happens to a job, as server-sent events. A client that is slow is sent the newest state
/// when it is ready again, not what was between.

#include <memory>
#include <optional>

#include "harpe/http/http_message.h"
#include "harpe/server/job_registry.h"

namespace harpe {

/// One stage of one pipeline.
struct StagePlace {
  int pipeline = 0;
  int stage = 0;
};

/// Who listens to the events of a job.
struct EventListener {
  std::optional<StagePlace> place = {};  ///< none: who wants no orders
  /// The rank that it is, by its session; empty: any listener.
  int tensor = 0;
  std::string session = {};
};

/// `event: orders` (where a stage is given), `event: phase` and `event: notice`: first the present
/// state, then changes; a comment `: hb` when nothing else was sent for 15 seconds. It ends where
/// this server may not command the job any more, where the job is another life of itself, and where
/// the rank that listens does not hold its place any more: whatever comes, a comment too, says that
/// the rank is governed. Made, and used, on the loop's thread. \param job  must not be null
std::shared_ptr<EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                        EventListener listener);

/// Orders as a list of JSON objects: the same as `orders_json`, written faster.
std::string orders_text(const std::vector<StageOrders>& orders);
/// Those of a stage of a pipeline, now. The job must have the place.
std::string orders_text(HostedJob& job, StagePlace place);
/// By which life of the job, and which claim, orders hold: members of a JSON object, without
/// braces.
std::string life_text(const HostedJob& job);

}  // namespace harpe
