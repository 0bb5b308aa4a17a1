#pragma once
/// \file
/// Zeus's pipeline frequency protocol for jobs of this server: register_job, register_rank,
/// schedule, result. Compatible with Zeus's own client.
///
/// A client names its job in `job_metadata`: either the id of a job of this server, whose current
/// plan it gets, or a JSON object with the members of a specification (data, stages and tensor are
/// taken from the degrees), for which a job is registered. Ranks of Zeus register with this job,
/// and their results are its reports, unless ranks of Harpe's own clients hold it.
///
/// A training whose ranks take part is stored with its job: it continues on the next server that
/// has the job.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/net/http/http_message.h"
#include "harpe/training/server/job_registry.h"

namespace harpe::training {

// Requests of clients of Zeus's pipeline frequency server (release 0.16), read and checked like
// that server does. Malformed requests get status 422 and `{"detail": [{"loc", "msg", "type"}]}`.

/// A parsed request, or the response to a malformed one.
template <class T>
using ZeusRead = std::variant<T, net::HttpResponse>;

struct ZeusJobInfo {
  int pp_degree = 1, dp_degree = 1, tp_degree = 1;
  std::optional<std::string> metadata;
};
ZeusRead<ZeusJobInfo> read_zeus_job(std::string_view body);

struct ZeusRankInfo {
  int rank = 0, dp_rank = 0, pp_rank = 0, tp_rank = 0;
  std::vector<Megahertz> frequencies;
};
ZeusRead<ZeusRankInfo> read_zeus_rank(std::string_view body);

/// Seconds or joules, by iteration, then by instruction.
using ZeusBreakdown = std::map<std::string, std::vector<std::vector<double>>>;

struct ZeusResult {
  int rank = 0;
  std::vector<double> iteration_time, iteration_energy;  ///< s, J
  ZeusBreakdown time, energy;
};
ZeusRead<ZeusResult> read_zeus_result(std::string_view body);

/// Returns the rank in the query of GET /schedule.
ZeusRead<int> read_zeus_rank_number(const std::string& query);

/// Returns {"detail": "..."}.
net::HttpResponse zeus_error(int status, const std::string& detail);

/// Returns the id of the job that a Zeus request refers to, on this server or another one that
/// shares its store; nullopt if it names none.
std::optional<std::string> job_of_zeus_request(const net::HttpRequest& request);

/// Returns true if a request waits until all ranks of its training have sent theirs.
bool waits_for_other_ranks(const net::HttpRequest& request);

/// The routes of Zeus's protocol. Used on the loop's thread.
class ZeusRoutes {
 public:
  /// \param patience  how long ranks wait for their schedule before all ranks have requested it
  ZeusRoutes(JobRegistry& registry, Seconds patience);
  ~ZeusRoutes();

  /// Returns false if the path is not part of Zeus's protocol.
  bool handle(net::HttpRequest& request, const net::Reply& reply);
  /// Called once a second: answers waiting requests, and forgets trainings that ended long ago.
  void tick();

 private:
  struct ZeusJob;
  using ZeusJobPtr = std::shared_ptr<ZeusJob>;

  void register_job(const net::HttpRequest& request, const net::Reply& reply);
  void register_rank(const ZeusJobPtr& job, const net::HttpRequest& request,
                     const net::Reply& reply);
  void give_schedule(const ZeusJobPtr& job, const net::HttpRequest& request,
                     const net::Reply& reply);
  void take_result(const ZeusJobPtr& job, const net::HttpRequest& request, const net::Reply& reply);
  std::string new_id(const ZeusJobInfo& info, const std::string& native) const;
  ZeusJobPtr find(const std::string& id);
  ZeusJobPtr recover(const std::string& id);
  JobRegistry::JobPtr native_of(const ZeusJobPtr& job);

  JobRegistry& registry_;
  const Seconds patience_;
  std::map<std::string, ZeusJobPtr> jobs_;
};

}  // namespace harpe::training
