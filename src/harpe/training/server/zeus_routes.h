#pragma once
/// \file
/// Zeus's pipeline frequency protocol over jobs of this server: register_job, register_rank,
/// schedule, result. Zeus's own client works with it unchanged.
///
/// Which job a client means stands in its `job_metadata`: the id of a job of this server, whose
/// plan in force is handed out; or a JSON object with the members of a specification (data, stages
/// and tensor come from the degrees), for which a job is registered. Ranks of Zeus register with
/// that job, and their results are its reports, unless ranks of Harpe's own clients hold it.
///
/// A training whose ranks take part is in what is stored of its job: it goes on at the next server
/// that has the job.

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

// Requests of clients of Zeus's pipeline frequency server (release 0.16), read and checked as that
// server does. Malformed requests are answered with 422 and `{"detail": [{"loc", "msg", "type"}]}`.

/// A request that was read, or the response to a malformed one.
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

/// By iteration, then by instruction: seconds or joules.
using ZeusBreakdown = std::map<std::string, std::vector<std::vector<double>>>;

struct ZeusResult {
  int rank = 0;
  std::vector<double> iteration_time, iteration_energy;  ///< s, J
  ZeusBreakdown time, energy;
};
ZeusRead<ZeusResult> read_zeus_result(std::string_view body);

/// The rank in the query of GET /schedule.
ZeusRead<int> read_zeus_rank_number(const std::string& query);

/// {"detail": "..."}
net::HttpResponse zeus_error(int status, const std::string& detail);

/// The id of the job of this server, or of another that shares its store, that a request of Zeus's
/// is about; none where it names none.
std::optional<std::string> job_of_zeus_request(const net::HttpRequest& request);

/// Whether a request is answered only once all ranks of its training have asked: any time later.
bool waits_for_other_ranks(const net::HttpRequest& request);

/// On the loop's thread.
class ZeusRoutes {
 public:
  /// \param patience  how long ranks wait for their schedule while others have not asked
  ZeusRoutes(JobRegistry& registry, Seconds patience);
  ~ZeusRoutes();

  /// False when the path is none of Zeus's.
  bool handle(net::HttpRequest& request, const net::Reply& reply);
  /// Once a second: answers what has been waited for, forgets what is long over.
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
