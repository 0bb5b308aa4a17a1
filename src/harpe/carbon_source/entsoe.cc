#include "harpe/carbon_source/entsoe.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr const char* kEntsoe = "ENTSO-E";
constexpr std::size_t kMostPoints = 1'000'000;
constexpr double kMostMegawatts = 1e7;  // no zone comes near
constexpr WholeSeconds kHeldFor{3 * 3600};

/// Names without the prefix of a namespace.
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

Error entsoe_error(const std::string& what) {
  return Error::invalid(std::string(kEntsoe) + ": " + what);
}

std::optional<WholeSeconds> resolution_of(std::string_view text) {
  if (text == "PT15M") return WholeSeconds(900);
  if (text == "PT30M") return WholeSeconds(1800);
  if (text == "PT60M" || text == "PT1H") return WholeSeconds(3600);
  if (text == "PT5M") return WholeSeconds(300);
  return std::nullopt;
}

/// Energy and time of each interval of one name: means of what falls into it.
struct Covered {
  double megawatt_seconds = 0;
  double seconds_told = 0;
};

class EntsoeReader {
 public:
  explicit EntsoeReader(WholeSeconds step) : step_(step) {}

  Status read(const pugi::xml_node& root) {
    for (const pugi::xml_node& series : root.children()) {
      if (local_name(series) == "TimeSeries") HARPE_TRY(read_series(series));
    }
    return ok_status();
  }

  Result<PowerSeries> finish() {
    PowerSeries power{.step = step_};
    UtcTime end{};
    bool any = false;
    for (const auto& [name, slots] : covered_) {
      if (slots.empty()) continue;
      const UtcTime first = slots.begin()->first, last = slots.rbegin()->first + step_;
      power.start = any ? std::min(power.start, first) : first;
      end = any ? std::max(end, last) : last;
      any = true;
    }
    if (!any) return entsoe_error("the answer has no value");
    const auto size = static_cast<std::size_t>((end - power.start) / step_);
    if (size > kMostPoints || size * covered_.size() > kMostPoints) {
      return entsoe_error("the answer's times are too far apart");
    }
    for (const auto& [name, slots] : covered_) {
      std::vector<double>& values = power.megawatts[name];
      values.assign(size, kNoValue);
      for (const auto& [at, covered] : slots) {
        if (2 * covered.seconds_told < static_cast<double>(step_.count())) continue;
        values[static_cast<std::size_t>((at - power.start) / step_)] =
            covered.megawatt_seconds / covered.seconds_told;
      }
    }
    if (negative_ > 0) {
      power.notes.push_back(std::to_string(negative_) + " negative values counted as 0");
    }
    return power;
  }

 private:
  Status read_series(const pugi::xml_node& series) {
    const bool generated = !child_of(series, "inBiddingZone_Domain.mRID").empty();
    const std::string_view type = text_of_child(child_of(series, "MktPSRType"), "psrType");
    if (!generated && !type.empty()) return ok_status();  // pumps: it is consumed
    const std::string name = !type.empty() ? std::string(type) : generated ? "generation" : "load";
    if (name.size() > 20) return entsoe_error("a production type " + in_quotes(name));
    const bool repeats = text_of_child(series, "curveType") == "A03";
    for (const pugi::xml_node& period : series.children()) {
      if (local_name(period) == "Period") HARPE_TRY(read_period(period, name, repeats));
    }
    return ok_status();
  }

  Status read_period(const pugi::xml_node& period, const std::string& name, bool repeats) {
    const pugi::xml_node interval = child_of(period, "timeInterval");
    const auto start = parse_provider_time(text_of_child(interval, "start"));
    const auto end = parse_provider_time(text_of_child(interval, "end"));
    const std::string_view resolution = text_of_child(period, "resolution");
    const auto length = resolution_of(resolution);
    if (!start || !end || *end <= *start) return entsoe_error("a period without start and end");
    if (!length) return entsoe_error("a resolution of " + in_quotes(resolution));
    const auto positions = static_cast<std::size_t>((*end - *start) / *length);
    if (positions > kMostPoints - std::min(points_, kMostPoints)) {
      return entsoe_error("the answer has too many points");
    }
    points_ += positions;
    std::vector<double> values(positions, kNoValue);
    for (const pugi::xml_node& point : period.children()) {
      if (local_name(point) == "Point") HARPE_TRY(read_point(point, values));
    }
    double held = kNoValue;
    for (std::size_t i = 0; i < positions; ++i) {
      if (!std::isnan(values[i])) held = values[i];
      if (!repeats) held = values[i];
      if (!std::isnan(held))
        cover(name, *start + static_cast<std::int64_t>(i) * *length, *length, held);
    }
    return ok_status();
  }

  Status read_point(const pugi::xml_node& point, std::vector<double>& values) {
    const auto position = parse_integer(text_of_child(point, "position"));
    const std::string_view text = text_of_child(point, "quantity");
    const auto quantity = parse_number(text);
    if (!position || *position < 1 || static_cast<std::size_t>(*position) > values.size()) {
      return entsoe_error("a point outside of its period, at position " +
                          in_quotes(text_of_child(point, "position")));
    }
    if (!quantity || std::abs(*quantity) > kMostMegawatts) {
      return entsoe_error("expected megawatts, found " + in_quotes(text));
    }
    if (*quantity < 0) ++negative_;  // a plant's own use
    values[static_cast<std::size_t>(*position - 1)] = std::max(0.0, *quantity);
    return ok_status();
  }

  /// Adds `length` from `at`, split where an interval ends.
  void cover(const std::string& name, UtcTime at, WholeSeconds length, double megawatts) {
    std::map<UtcTime, Covered>& slots = covered_[name];
    while (length.count() > 0) {
      const UtcTime slot = interval_of(at, step_);
      const WholeSeconds within = std::min(length, slot + step_ - at);
      Covered& covered = slots[slot];
      covered.megawatt_seconds += megawatts * static_cast<double>(within.count());
      covered.seconds_told += static_cast<double>(within.count());
      at += within;
      length = length - within;
    }
  }

  WholeSeconds step_;
  std::map<std::string, std::map<UtcTime, Covered>> covered_;
  std::size_t points_ = 0, negative_ = 0;
};

/// The types that count, with their last value.
struct CountedType {
  const std::vector<double>* megawatts = nullptr;
  double grams_per_kwh = 0;
  double held = kNoValue;
  std::size_t held_since = 0;
};

/// What was generated by types without a factor, as a note; empty: nothing.
std::string note_of_left_out(const PowerSeries& generation,
                             const std::map<std::string, double>& known) {
  double all = 0, left_out = 0;
  std::string names;
  for (const auto& [type, megawatts] : generation.megawatts) {
    double sum = 0;
    for (const double value : megawatts) sum += std::isnan(value) ? 0 : value;
    all += sum;
    if (known.contains(type) || sum <= 0) continue;
    left_out += sum;
    names += (names.empty() ? "" : ", ") + type;
  }
  if (left_out <= 0) return {};
  return shortest(100 * left_out / all, 1) +
         " % of the generation has no emission factor and is left out: " + names;
}

}  // namespace

Result<PowerSeries> parse_entsoe(std::string_view xml, WholeSeconds step) {
  if (step.count() <= 0 || whole_days(1) % step != WholeSeconds(0)) {
    return entsoe_error("the step does not divide a day");
  }
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    return entsoe_error(std::string("the answer is no XML: ") + parsed.description() +
                        " after byte " + std::to_string(parsed.offset));
  }
  const pugi::xml_node root = document.document_element();
  if (local_name(root) == "Acknowledgement_MarketDocument") {
    const std::string_view reason = text_of_child(child_of(root, "Reason"), "text");
    return Error::of(ErrorCode::kNotFound,
                     std::string(kEntsoe) + " says: " + in_quotes(reason, 200));
  }
  if (local_name(root) != "GL_MarketDocument") {
    return entsoe_error("expected a GL_MarketDocument, found " + in_quotes(local_name(root)));
  }
  EntsoeReader reader(step);
  HARPE_TRY(reader.read(root));
  return reader.finish();
}

Result<ProviderIntensity> intensity_of_generation(const PowerSeries& generation,
                                                  const std::vector<EmissionFactor>& factors,
                                                  const std::string& zone) {
  std::map<std::string, double> known;
  for (const EmissionFactor& factor : factors) {
    if (factor.grams_per_kwh) known[factor.type] = *factor.grams_per_kwh;
  }
  std::vector<CountedType> types;
  for (const auto& [type, megawatts] : generation.megawatts) {
    if (known.contains(type)) {
      types.push_back({.megawatts = &megawatts, .grams_per_kwh = known.at(type)});
    }
  }
  std::vector<ProviderRow> rows;
  for (std::size_t i = 0; i < generation.size(); ++i) {
    double power = 0, grams = 0;
    bool estimated = false, told = true;
    for (CountedType& type : types) {
      if (!std::isnan((*type.megawatts)[i])) {
        type.held = (*type.megawatts)[i];
        type.held_since = i;
      } else if (!std::isnan(type.held) && type.held > 0) {
        estimated = true;
        if (static_cast<std::int64_t>(i - type.held_since) * generation.step > kHeldFor)
          told = false;
      }
      if (std::isnan(type.held)) continue;
      power += type.held;
      grams += type.held * type.grams_per_kwh;
    }
    rows.push_back({.start = generation.start + static_cast<std::int64_t>(i) * generation.step,
                    .grams_per_kwh = told && power > 0 ? grams / power : kNoValue,
                    .estimated = estimated});
  }
  ProviderIntensity answer =
      HARPE_TRY(series_of_rows(std::move(rows), {.kind = IntensityKind::kAverageLifecycle,
                                                 .zone = zone,
                                                 .source = "ENTSO-E generation, own factors",
                                                 .step = generation.step}));
  answer.notes.insert(answer.notes.begin(), generation.notes.begin(), generation.notes.end());
  std::string left_out = note_of_left_out(generation, known);
  if (!left_out.empty()) answer.notes.push_back(std::move(left_out));
  return answer;
}

}  // namespace harpe
