#pragma once
/// \file
/// The common parts of ENTSO-E documents: names, acknowledgements, periods of points, and means
/// over intervals of one length. Include it only in `.cc` files: the XML library is large.

#include <map>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// Limit for one document.
inline constexpr std::size_t kMostEntsoePoints = 1'000'000;

Error entsoe_error(const std::string& what);

/// Returns the name without the prefix of its namespace.
std::string_view local_name(const pugi::xml_node& node);
pugi::xml_node child_of(const pugi::xml_node& node, std::string_view name);
std::string_view text_of_child(const pugi::xml_node& node, std::string_view name);

/// Parses the document and returns its root. Fails if the root is not `name`; an acknowledgement is
/// kNotFound, with its reason.
Result<pugi::xml_node> entsoe_root(pugi::xml_document& document, std::string_view xml,
                                   std::string_view name);

std::vector<pugi::xml_node> time_series_of(const pugi::xml_node& root);

/// The kind of value in a document's points.
struct PointValue {
  const char* name;  ///< name of the element: "quantity"
  double most;       ///< limit on its magnitude
  const char* what;  ///< unit for messages: "megawatts"
};

struct EntsoePeriod {
  UtcTime start{};
  WholeSeconds step{};
  std::vector<double> values = {};  ///< NaN if a position is missing
  std::ptrdiff_t at = 0;            ///< offset in the response, in bytes
};
/// \param points  number of points read so far, which this adds to; at most kMostEntsoePoints
Result<EntsoePeriod> read_entsoe_period(const pugi::xml_node& period, const PointValue& value,
                                        std::size_t& points);

/// Returns true for curveType A03, in which a missing position repeats the previous value.
bool repeats_missing(const pugi::xml_node& series);
void repeat_missing(std::vector<double>& values);

/// Means over intervals of one length.
class CoveredIntervals {
 public:
  explicit CoveredIntervals(WholeSeconds step) : step_(step) {}

  /// Adds the known values of a period, split at the ends of intervals. Fails if an earlier period
  /// has another value with the same start and length; the error gives the positions of both.
  Status add(const EntsoePeriod& period);
  bool empty() const { return intervals_.empty(); }
  /// \pre not empty
  UtcTime start() const { return intervals_.begin()->first; }
  UtcTime end() const { return intervals_.rbegin()->first + step_; }
  /// Returns the means by the start of the interval; intervals less than half covered are omitted.
  std::map<UtcTime, double> means() const;

 private:
  struct Covered {
    double sum = 0;  ///< value x seconds
    double seconds = 0;
  };
  struct Told {
    double value = 0;
    std::ptrdiff_t at = 0;  ///< offset in the response, in bytes
  };
  WholeSeconds step_;
  std::map<UtcTime, Covered> intervals_;
  std::map<std::pair<UtcTime, WholeSeconds>, Told> told_;  ///< by start and length
};

}  // namespace harpe::carbon
