#include "harpe/carbon/carbon_source/entsoe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/entsoe_xml.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::carbon {
namespace {

constexpr double kMostMegawatts = 1e7;  // above any zone
constexpr PointValue kMegawatts{.name = "quantity", .most = kMostMegawatts, .what = "megawatts"};
constexpr WholeSeconds kHeldFor{3 * 3600};

class EntsoeReader {
 public:
  explicit EntsoeReader(WholeSeconds step) : step_(step) {}

  Status read(const pugi::xml_node& root) {
    for (const pugi::xml_node& series : time_series_of(root)) HARPE_TRY(read_series(series));
    return ok_status();
  }

  Result<PowerSeries> finish() {
    std::erase_if(covered_, [](const auto& entry) { return entry.second.empty(); });
    PowerSeries power{.step = step_};
    UtcTime end{};
    bool any = false;
    for (const auto& [name, covered] : covered_) {
      power.start = any ? std::min(power.start, covered.start()) : covered.start();
      end = any ? std::max(end, covered.end()) : covered.end();
      any = true;
    }
    if (!any) return entsoe_error("the answer has no value");
    const auto size = static_cast<std::size_t>((end - power.start) / step_);
    if (size > kMostEntsoePoints || size * covered_.size() > kMostEntsoePoints) {
      return entsoe_error("the answer's times are too far apart");
    }
    for (const auto& [name, covered] : covered_) {
      std::vector<double>& values = power.megawatts[name];
      values.assign(size, kNoValue);
      for (const auto& [at, mean] : covered.means()) {
        values[static_cast<std::size_t>((at - power.start) / step_)] = mean;
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
    if (!generated && !type.empty()) return ok_status();  // consumption of pumped storage
    const std::string name = !type.empty() ? std::string(type) : generated ? "generation" : "load";
    if (name.size() > 20)
      return entsoe_error("the production type is too long: " + in_quotes(name));
    for (const pugi::xml_node& child : series.children()) {
      if (local_name(child) != "Period") continue;
      EntsoePeriod period = HARPE_TRY(read_entsoe_period(child, kMegawatts, points_));
      for (double& megawatts : period.values) {
        if (!(megawatts < 0)) continue;
        ++negative_;  // own consumption of a plant
        megawatts = 0;
      }
      if (repeats_missing(series)) repeat_missing(period.values);
      HARPE_TRY(covered_.try_emplace(name, step_).first->second.add(period));
    }
    return ok_status();
  }

  WholeSeconds step_;
  std::map<std::string, CoveredIntervals> covered_;
  std::size_t points_ = 0, negative_ = 0;
};

/// A production type with an emission factor, and its last value.
struct CountedType {
  const std::vector<double>* megawatts = nullptr;
  double grams_per_kwh = 0;
  double held = kNoValue;
  std::size_t held_since = 0;
};

/// Returns a note about generation by types without a factor; empty if there is none.
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

constexpr const char* kEntsoeUrl = "https://web-api.tp.entsoe.eu";
constexpr WholeSeconds kEntsoeLongest =
    whole_hours(24 * 31);  // a year is allowed, but takes tens of megabytes

/// Returns a time such as "202601311300".
std::string entsoe_time(UtcTime time) {
  std::string text;
  for (const char c : utc_text(time).substr(0, 16)) {
    if (c >= '0' && c <= '9') text += c;
  }
  return text;
}

std::string entsoe_url(const ProviderAccess& access, const std::string& what, UtcTime from,
                       UtcTime to) {
  const std::string base = access.url.empty() ? kEntsoeUrl : access.url;
  return base + "/api?securityToken=" + net::percent_encoded(access.token) +
         "&documentType=" + what + "&periodStart=" + entsoe_time(from) +
         "&periodEnd=" + entsoe_time(to);
}

class Entsoe final : public EntsoeSource {
 public:
  Entsoe(SourceLink& link, ProviderAccess access, std::string zone, WholeSeconds step,
         std::vector<EmissionFactor> factors)
      : link_(link), access_(std::move(access)), factors_(std::move(factors)) {
    identity_ = {.provider = "entsoe",
                 .zone = std::move(zone),
                 .kind = IntensityKind::kAverageLifecycle,
                 .step = step};
    const std::string own = emission_factors_text(factors_);
    if (own != emission_factors_text(default_emission_factors())) {
      identity_.options = "factors=" + own;
    }
  }

  const SourceIdentity& identity() const override { return identity_; }

  /// Requests 12 hours, because generation is published an hour or more late.
  Result<ProviderIntensity> latest() override {
    const UtcTime now = interval_of(access_.now(), whole_hours(1));
    return history(now - whole_hours(12), now + whole_hours(1));
  }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    return fetch_in_parts(
        interval_of(from, whole_hours(1)), to, kEntsoeLongest,
        [&](UtcTime begin, UtcTime end) -> Result<ProviderIntensity> {
          const PowerSeries generation = HARPE_TRY(ask("A75", "A16", "in_Domain", begin, end));
          ProviderIntensity answer =
              HARPE_TRY(intensity_of_generation(generation, factors_, identity_.zone));
          answer.fetched_at = access_.now();
          return answer;
        });
  }

  Result<ProviderIntensity> forecast(WholeSeconds) override {
    return Error::of(ErrorCode::kNotSupported, "ENTSO-E has no forecast of carbon intensity");
  }

  Result<PowerSeries> day_ahead(DayAhead what, UtcTime from, UtcTime to) override {
    return what == DayAhead::kLoad ? ask("A65", "A01", "outBiddingZone_Domain", from, to)
                                   : ask("A69", "A01", "in_Domain", from, to);
  }

 private:
  Result<PowerSeries> ask(const std::string& document, const std::string& process,
                          const std::string& domain, UtcTime from, UtcTime to) {
    const std::string url = entsoe_url(access_,
                                       document + "&processType=" + process + "&" + domain + "=" +
                                           net::percent_encoded(identity_.zone),
                                       from, to);
    const std::string body = HARPE_TRY(link_.get(url, {}, {access_.token}));
    return parse_entsoe(body, identity_.step);
  }

  SourceLink& link_;
  ProviderAccess access_;
  std::vector<EmissionFactor> factors_;
  SourceIdentity identity_;
};

}  // namespace

Result<PowerSeries> parse_entsoe(std::string_view xml, WholeSeconds step) {
  if (step.count() <= 0 || whole_days(1) % step != WholeSeconds(0)) {
    return entsoe_error("the step does not divide a day");
  }
  pugi::xml_document document;
  const pugi::xml_node root = HARPE_TRY(entsoe_root(document, xml, "GL_MarketDocument"));
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

std::unique_ptr<EntsoeSource> make_entsoe(SourceLink& link, ProviderAccess access, std::string zone,
                                          WholeSeconds step, std::vector<EmissionFactor> factors) {
  return std::make_unique<Entsoe>(link, std::move(access), std::move(zone), step,
                                  std::move(factors));
}

Result<DayAheadPrices> fetch_entsoe_prices(SourceLink& link, const ProviderAccess& access,
                                           const std::string& zone, WholeSeconds step, UtcTime from,
                                           UtcTime to) {
  const std::string area = net::percent_encoded(zone);
  DayAheadPrices all;
  const auto part_of = [&](UtcTime begin, UtcTime end) -> Result<ProviderIntensity> {
    const std::string url = entsoe_url(
        access, "A44&contract_MarketAgreement.type=A01&in_Domain=" + area + "&out_Domain=" + area,
        begin, end);
    const std::string body = HARPE_TRY(link.get(url, {}, {access.token}));
    DayAheadPrices part = HARPE_TRY(parse_entsoe_prices(body, step, zone));
    if (!all.money.empty() && all.money != part.money) {
      return Error::invalid("ENTSO-E: prices in " + all.money + " and in " + part.money +
                            " cannot be combined: request a time with only one of them");
    }
    all.money = part.money;
    part.prices.fetched_at = access.now();
    return std::move(part.prices);
  };
  all.prices = HARPE_TRY(fetch_in_parts(interval_of(from, step), to, kEntsoeLongest, part_of));
  if (all.prices.series.gaps() == all.prices.series.size()) {
    return Error::of(ErrorCode::kNotFound, "ENTSO-E has no price for that time");
  }
  return all;
}

}  // namespace harpe::carbon
