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

/// `event: orders` (where a stage is given), `event: phase` and `event: notice`: first the present
/// state, then changes; a comment `: hb` when nothing else was sent for 15 seconds. Made, and used,
/// on the loop's thread. \param job  must not be null
std::shared_ptr<EventStream> job_events(JobRegistry& registry, const JobRegistry::JobPtr& job,
                                        std::optional<StagePlace> place);

/// Orders as a list of JSON objects: the same as `orders_json`, written faster.
std::string orders_text(const std::vector<StageOrders>& orders);
/// Those of a stage of a pipeline, now.
std::string orders_text(HostedJob& job, StagePlace place);

}  // namespace harpe
