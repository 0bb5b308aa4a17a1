#pragma once
/// \file
/// What clients of Zeus's pipeline frequency server send (its release 0.16), read and checked as
/// that server does: what does not fit is answered with 422 and `{"detail": [{"loc", "msg",
/// "type"}]}`.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/net/http/http_message.h"

namespace harpe::training {

/// What was read, or what to answer.
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

}  // namespace harpe::training
