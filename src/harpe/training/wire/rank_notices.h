#pragma once
/// \file
/// What ranks have to say to the people who train, such as that clocks cannot be set. Every rank of
/// a job would say much the same: so ranks tell the server, equal texts become one with the ranks
/// that have it, and the job's first rank (all coordinates 0) says it once.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/wire/job_shape.h"

namespace harpe {

/// From a rank. The first rank asks with it what it has to say, too.
struct RankNotices {
  static constexpr std::size_t kMost = 16;      ///< texts
  static constexpr std::size_t kLongest = 512;  ///< bytes of one
  RankCoordinates coordinates;
  std::string session;             ///< that holds the place
  std::vector<std::string> texts;  ///< one line each
  std::uint64_t heard = 0;         ///< number of the newest notice that it was given; 0: none
  bool last = false;               ///< the first rank ends: nothing is waited for any more
};

/// One text of one or more ranks.
struct JobNotice {
  std::uint64_t number = 0;  ///< rises; where it was not said yet: 0
  int count = 0;             ///< of ranks
  std::string ranks;         ///< "0-7, 12", in the job's own order
  std::string text;

  /// As it is shown: "ranks 0-7, 12: text"; "all 64 ranks: text"; of a job of one rank, the text.
  std::string line(int ranks_of_job) const;
  friend bool operator==(const JobNotice&, const JobNotice&) = default;
};

/// To a rank.
struct NoticeResponse {
  bool taken = false;              ///< the first rank asks: it says what the rank told
  int ranks = 1;                   ///< of the job
  std::vector<JobNotice> notices;  ///< for the first rank to say
};

/// Texts lose control characters.
Result<RankNotices> parse_rank_notices(std::string_view text);
std::string rank_notices_json(const RankNotices& notices);
/// Members that it does not know are left out.
Result<NoticeResponse> parse_notice_response(std::string_view text);
std::string notice_response_json(const NoticeResponse& response);

/// A text from outside as one line of a log: control characters become spaces, and what is longer
/// than `RankNotices::kLongest` is cut between characters.
std::string notice_text(std::string_view text);

}  // namespace harpe
