#include "harpe/training/server/hosted_request.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_responses.h"

namespace harpe::training {
namespace {

constexpr int kMostLogged = 1000;
constexpr std::size_t kUsualListed = 1000, kMostListed = 10'000;

Result<net::HttpQuery> list_query(std::string_view text) {
  return net::HttpQuery::parse(text, {"after", "limit", "activity"});
}

Result<std::set<Activity>> activities_of(const net::HttpQuery& query) {
  const std::set<Activity> all{Activity::kActive, Activity::kIdle, Activity::kEnded};
  const auto given = query.find("activity");
  if (!given) return all;
  std::set<Activity> wanted;
  for (std::string_view rest = *given; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const auto known =
        std::ranges::find_if(all, [&](Activity activity) { return word == name_of(activity); });
    if (known == all.end()) break;
    wanted.insert(*known);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (rest.empty()) return wanted;
  }
  return Error::invalid("activity is some of active, idle and ended, with commas between");
}

Result<std::size_t> limit_of(const net::HttpQuery& query) {
  if (!query.find("limit")) return kUsualListed;
  const std::uint32_t number = HARPE_TRY(query.number("limit"));
  if (number < 1 || number > kMostListed) {
    return Error::invalid("limit is a number from 1 to 10000");
  }
  return std::size_t{number};
}

}  // namespace

Result<ListRequest> parse_list_request(std::string_view text) {
  const net::HttpQuery query = HARPE_TRY(list_query(text));
  ListRequest request{.after = std::string(query.find("after").value_or("")),
                      .limit = 0,
                      .activities = HARPE_TRY(activities_of(query))};
  request.limit = HARPE_TRY(limit_of(query));
  return request;
}

std::size_t most_listed(std::string_view text) {
  const Result<net::HttpQuery> query = list_query(text);
  const Result<std::size_t> limit = query.ok() ? limit_of(*query) : query.error();
  return limit.ok() ? *limit : kUsualListed;
}

void respond_with_log(Hosting& hosting, const HostedPtr& hosted, std::string_view text,
                      const net::Reply& reply) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(text, {"after"});
  if (!query.ok()) return reply(net::native_error(query.error()));
  std::int64_t after = 0;
  if (const auto given = query->find("after")) {
    const auto number = parse_integer(*given);
    if (!number || *number < 0) {
      return reply(net::native_error(400, "invalid_input", "after must be a whole number from 0"));
    }
    after = *number;
  }
  hosting.job_log().read(hosted, after, kMostLogged,
                         [reply](Result<std::vector<LoggedEvent>> events) {
                           if (!events.ok()) return reply(net::native_error(events.error()));
                           net::OrderedJson list = net::OrderedJson::array();
                           for (const LoggedEvent& event : *events) {
                             list.push_back({{"sequence", event.sequence},
                                             {"at", event.at},
                                             {"kind", event.kind},
                                             {"text", event.text}});
                           }
                           reply(net::json_response(200, {{"events", std::move(list)}}));
                         });
}

net::Reply while_commanded(const Hosting& hosting, const HostedPtr& hosted, bool forwarded,
                           net::Reply reply) {
  return [&hosting, hosted, forwarded, reply = std::move(reply)](net::HttpResponse response) {
    const auto check = [&hosting, hosted, forwarded](net::HttpResponse& one) {
      if (hosted->deleted || hosting.claims().commands(*hosted)) return;
      // With 421 the forwarding server asks the next server; with 503 a client asks again.
      one = net::native_error(
          forwarded ? 421 : 503, "unavailable",
          "job " + hosted->id + " is being removed, or may be on another server; try again");
    };
    check(response);
    response.before_sending = check;
    reply(std::move(response));
  };
}

}  // namespace harpe::training
