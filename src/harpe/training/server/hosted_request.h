#pragma once
/// \file
/// Common parts of requests for all kinds of jobs: pages of lists, logs, and responses that are
/// valid only while this server commands the job.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"
#include "harpe/training/server/hosting.h"

namespace harpe::training {

/// The requested page of a list.
struct ListRequest {
  std::string after;
  std::size_t limit = 0;
  std::set<Activity> activities;
};
Result<ListRequest> parse_list_request(std::string_view query);
/// Returns the limit on the jobs of a list, from its query; the default if the query is invalid.
std::size_t most_listed(std::string_view query);

/// Responds with the events of the job after the sequence number in the query.
void respond_with_log(Hosting& hosting, const HostedPtr& hosted, std::string_view query,
                      const net::Reply& reply);

/// Returns a reply that sends an error if this server may not command the job: it checks when the
/// response is made, and again just before it is sent, since a process may be stopped in between.
net::Reply while_commanded(const Hosting& hosting, const HostedPtr& hosted, bool forwarded,
                           net::Reply reply);

}  // namespace harpe::training
