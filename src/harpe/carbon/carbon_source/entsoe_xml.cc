#include "harpe/carbon/carbon_source/entsoe_xml.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

constexpr const char* kEntsoe = "ENTSO-E";

std::optional<WholeSeconds> resolution_of(std::string_view text) {
  if (text == "PT15M") return WholeSeconds(900);
  if (text == "PT30M") return WholeSeconds(1800);
  if (text == "PT60M" || text == "PT1H") return WholeSeconds(3600);
  if (text == "PT5M") return WholeSeconds(300);
  return std::nullopt;
}

Status read_point(const pugi::xml_node& point, const PointValue& value,
                  std::vector<double>& values) {
  const auto position = parse_integer(text_of_child(point, "position"));
  const std::string_view text = text_of_child(point, value.name);
  const auto number = parse_number(text);
  if (!position || *position < 1 || static_cast<std::size_t>(*position) > values.size()) {
    return entsoe_error("a point is outside its period, at position " +
                        in_quotes(text_of_child(point, "position")));
  }
  if (!number || std::abs(*number) > value.most) {
    return entsoe_error(std::string("expected ") + value.what + ", found " + in_quotes(text));
  }
  double& told = values[static_cast<std::size_t>(*position - 1)];
  if (!std::isnan(told) && told != *number) {
    return entsoe_error("position " + std::to_string(*position) + " occurs twice, with " +
                        shortest(told) + " and, at byte " + std::to_string(point.offset_debug()) +
                        ", " + shortest(*number));
  }
  told = *number;
  return ok_status();
}

}  // namespace

Error entsoe_error(const std::string& what) {
  return Error::invalid(std::string(kEntsoe) + ": " + what);
}

std::string_view local_name(const pugi::xml_node& node) {
  const std::string_view name = node.name();
  const std::size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

pugi::xml_node child_of(const pugi::xml_node& node, std::string_view name) {
  for (const pugi::xml_node& child : node.children()) {
    if (local_name(child) == name) return child;
  }
  return {};
}

std::string_view text_of_child(const pugi::xml_node& node, std::string_view name) {
  return trim(child_of(node, name).text().get());
}

std::vector<pugi::xml_node> time_series_of(const pugi::xml_node& root) {
  std::vector<pugi::xml_node> all;
  for (const pugi::xml_node& child : root.children()) {
    if (local_name(child) == "TimeSeries") all.push_back(child);
  }
  return all;
}

Result<pugi::xml_node> entsoe_root(pugi::xml_document& document, std::string_view xml,
                                   std::string_view name) {
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    return entsoe_error(std::string("the answer is not valid XML: ") + parsed.description() +
                        " after byte " + std::to_string(parsed.offset));
  }
  const pugi::xml_node root = document.document_element();
  if (local_name(root) == "Acknowledgement_MarketDocument") {
    const std::string_view reason = text_of_child(child_of(root, "Reason"), "text");
    return Error::of(ErrorCode::kNotFound,
                     std::string(kEntsoe) + " reports: " + in_quotes(reason, 200));
  }
  if (local_name(root) != name) {
    return entsoe_error("expected a " + std::string(name) + ", found " +
                        in_quotes(local_name(root)));
  }
  return root;
}

Result<EntsoePeriod> read_entsoe_period(const pugi::xml_node& period, const PointValue& value,
                                        std::size_t& points) {
  const pugi::xml_node interval = child_of(period, "timeInterval");
  const auto start = parse_provider_time(text_of_child(interval, "start"));
  const auto end = parse_provider_time(text_of_child(interval, "end"));
  const std::string_view resolution = text_of_child(period, "resolution");
  const auto step = resolution_of(resolution);
  if (!start || !end || *end <= *start) return entsoe_error("a period has no valid start and end");
  if (!step) return entsoe_error("unknown resolution " + in_quotes(resolution));
  const auto positions = static_cast<std::size_t>((*end - *start) / *step);
  if (positions > kMostEntsoePoints - std::min(points, kMostEntsoePoints)) {
    return entsoe_error("the answer has too many points");
  }
  points += positions;
  EntsoePeriod read{.start = *start, .step = *step, .values = {}, .at = period.offset_debug()};
  read.values.assign(positions, kNoValue);
  for (const pugi::xml_node& point : period.children()) {
    if (local_name(point) == "Point") HARPE_TRY(read_point(point, value, read.values));
  }
  return read;
}

bool repeats_missing(const pugi::xml_node& series) {
  return text_of_child(series, "curveType") == "A03";
}

void repeat_missing(std::vector<double>& values) {
  double held = kNoValue;
  for (double& value : values) {
    if (std::isnan(value)) value = held;
    held = value;
  }
}

Status CoveredIntervals::add(const EntsoePeriod& period) {
  for (std::size_t i = 0; i < period.values.size(); ++i) {
    const double value = period.values[i];
    if (std::isnan(value)) continue;
    UtcTime at = period.start + static_cast<std::int64_t>(i) * period.step;
    const auto [told, is_new] =
        told_.try_emplace({at, period.step}, Told{.value = value, .at = period.at});
    if (!is_new && told->second.value != value) {
      return entsoe_error("two values for " + utc_text(at) + ": " + shortest(told->second.value) +
                          " in the period at byte " + std::to_string(told->second.at) + ", and " +
                          shortest(value) + " in the period at byte " + std::to_string(period.at));
    }
    if (!is_new) continue;
    for (WholeSeconds left = period.step; left.count() > 0;) {
      const UtcTime slot = interval_of(at, step_);
      const WholeSeconds within = std::min(left, slot + step_ - at);
      Covered& covered = intervals_[slot];
      covered.sum += value * static_cast<double>(within.count());
      covered.seconds += static_cast<double>(within.count());
      at += within;
      left = left - within;
    }
  }
  return ok_status();
}

std::map<UtcTime, double> CoveredIntervals::means() const {
  std::map<UtcTime, double> means;
  for (const auto& [at, covered] : intervals_) {
    if (2 * covered.seconds < static_cast<double>(step_.count())) continue;
    means.emplace_hint(means.end(), at, covered.sum / covered.seconds);
  }
  return means;
}

}  // namespace harpe::carbon
