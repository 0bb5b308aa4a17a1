#pragma once
/// \file
/// What requests about all kinds of jobs share: lists by pages, logs, responses that hold only
/// while this server commands the job.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"
#include "harpe/training/server/hosting.h"

namespace harpe::training {

/// Which page of a list is asked for.
struct ListRequest {
  std::string after;
  std::size_t limit = 0;
  std::set<Activity> activities;
};
Result<ListRequest> parse_list_request(std::string_view query);
/// How many jobs a list has at most, by its query; the usual number where that is wrong.
std::size_t most_listed(std::string_view query);

/// The events of a job after the sequence number that the query names.
void respond_with_log(Hosting& hosting, const HostedPtr& hosted, std::string_view query,
                      const net::Reply& reply);

/// Where the job may be commanded here only until it is not: looked at when a response is made, and
/// again right before it is sent, since a process may be stopped in between.
net::Reply while_commanded(const Hosting& hosting, const HostedPtr& hosted, bool forwarded,
                           net::Reply reply);

}  // namespace harpe::training
