#pragma once
/// \file
/// What all documents of ENTSO-E share: names, acknowledgements, periods of points, and means over
/// intervals of one length. Only for `.cc` files: the XML library is large.

#include <map>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// Of one document.
inline constexpr std::size_t kMostEntsoePoints = 1'000'000;

Error entsoe_error(const std::string& what);

/// Without the prefix of a namespace.
std::string_view local_name(const pugi::xml_node& node);
pugi::xml_node child_of(const pugi::xml_node& node, std::string_view name);
std::string_view text_of_child(const pugi::xml_node& node, std::string_view name);

/// The root. Fails where it is another than `name`: an acknowledgement is kNotFound, with its
/// reason.
Result<pugi::xml_node> entsoe_root(pugi::xml_document& document, std::string_view xml,
                                   std::string_view name);

std::vector<pugi::xml_node> time_series_of(const pugi::xml_node& root);

/// What the points of a document hold.
struct PointValue {
  const char* name;  ///< of the element: "quantity"
  double most;       ///< of its magnitude
  const char* what;  ///< "megawatts"
};

struct EntsoePeriod {
  UtcTime start{};
  WholeSeconds step{};
  std::vector<double> values = {};  ///< NaN: no such position
  std::ptrdiff_t at = 0;            ///< byte of the answer
};
/// \param points  read so far, which grows; at most kMostEntsoePoints
Result<EntsoePeriod> read_entsoe_period(const pugi::xml_node& period, const PointValue& value,
                                        std::size_t& points);

/// With curveType A03 a position that is missing repeats the value before it.
bool repeats_missing(const pugi::xml_node& series);
void repeat_missing(std::vector<double>& values);

/// Means over intervals of one length.
class CoveredIntervals {
 public:
  explicit CoveredIntervals(WholeSeconds step) : step_(step) {}

  /// All values of a period that are known, split where an interval ends. Fails where a period
  /// before has another value of the same time, and names the places of both.
  Status add(const EntsoePeriod& period);
  bool empty() const { return intervals_.empty(); }
  /// \pre not empty
  UtcTime start() const { return intervals_.begin()->first; }
  UtcTime end() const { return intervals_.rbegin()->first + step_; }
  /// By the start of the interval; those less than half covered are left out.
  std::map<UtcTime, double> means() const;

 private:
  struct Covered {
    double sum = 0;  ///< value x seconds
    double seconds = 0;
  };
  struct Told {
    double value = 0;
    std::ptrdiff_t at = 0;  ///< byte of the answer
  };
  WholeSeconds step_;
  std::map<UtcTime, Covered> intervals_;
  std::map<std::pair<UtcTime, WholeSeconds>, Told> told_;  ///< by start and length
};

}  // namespace harpe::carbon
