#include "harpe/carbon/carbon_source/entsoe_prices.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/entsoe_xml.h"

namespace harpe::carbon {
namespace {

// Markets limit prices to some thousands of euros; a forint is a 400th of a euro.
constexpr PointValue kPrice{.name = "price.amount", .most = 1e9, .what = "a price"};
constexpr std::string_view kDayAhead = "A01";
constexpr std::int64_t kCoupledAuction = 1;
// Limit of kinds of auctions in one document.
constexpr std::size_t kMostAuctions = 100;

class PriceReader {
 public:
  explicit PriceReader(WholeSeconds step) : step_(step) {}

  Status read(const pugi::xml_node& root) {
    for (const pugi::xml_node& series : time_series_of(root)) HARPE_TRY(read_series(series));
    return ok_status();
  }

  Result<DayAheadPrices> finish(const std::string& zone) {
    std::map<UtcTime, double> chosen;
    std::size_t of_others = 0;
    for (const auto& [auction, covered] : auctions_) {
      for (const auto& [at, price] : covered.means()) {
        if (chosen.try_emplace(at, price).second && auction.first != kCoupledAuction) ++of_others;
      }
    }
    if (chosen.empty()) return entsoe_error("the answer has no price");
    const UtcTime start = chosen.begin()->first;
    const auto size = static_cast<std::size_t>((chosen.rbegin()->first - start) / step_) + 1;
    if (size > kMostEntsoePoints) return entsoe_error("the answer's times are too far apart");
    DayAheadPrices found{.prices = {}, .money = money_};
    found.prices.series = {.start = start,
                           .step = step_,
                           .values = std::vector<double>(size, kNoValue),
                           .estimated = std::vector<std::uint8_t>(size, 0),
                           .kind = IntensityKind::kPrice,
                           .zone = zone,
                           .source = "ENTSO-E day-ahead prices"};
    for (const auto& [at, price] : chosen) {
      found.prices.series.values[static_cast<std::size_t>((at - start) / step_)] = price;
    }
    if (of_others > 0) {
      found.prices.notes.push_back(
          std::to_string(of_others) +
          " prices are from another auction, because the auction of all of "
          "Europe has no price for their times");
    }
    return found;
  }

 private:
  Status read_series(const pugi::xml_node& series) {
    const std::string_view contract = text_of_child(series, "contract_MarketAgreement.type");
    if (!contract.empty() && contract != kDayAhead) return ok_status();
    HARPE_TRY(take_unit(series));
    const std::string_view number =
        text_of_child(series, "classificationSequence_AttributeInstanceComponent.position");
    const auto sequence = number.empty() ? std::optional(kCoupledAuction) : parse_integer(number);
    if (!sequence || *sequence < 1) {
      return entsoe_error("expected the number of an auction, found " + in_quotes(number));
    }
    for (const pugi::xml_node& child : series.children()) {
      if (local_name(child) != "Period") continue;
      EntsoePeriod period = HARPE_TRY(read_entsoe_period(child, kPrice, points_));
      if (repeats_missing(series)) repeat_missing(period.values);
      const std::pair auction(*sequence, -period.step.count());
      HARPE_TRY(auctions_.try_emplace(auction, step_).first->second.add(period));
      if (auctions_.size() > kMostAuctions) return entsoe_error("too many auctions");
    }
    return ok_status();
  }

  Status take_unit(const pugi::xml_node& series) {
    const std::string_view money = text_of_child(series, "currency_Unit.name");
    const std::string_view per = text_of_child(series, "price_Measure_Unit.name");
    const bool is_money = money.size() == 3 &&
                          std::ranges::all_of(money, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!is_money) return entsoe_error("expected a currency, found " + in_quotes(money));
    if (per != "MWH") return entsoe_error("expected prices per MWH, found " + in_quotes(per));
    if (money_.empty()) money_ = money;
    if (money_ != money) {
      return entsoe_error("prices in " + money_ + " and in " + std::string(money) +
                          " cannot be combined: request a time with only one of them");
    }
    return ok_status();
  }

  WholeSeconds step_;
  /// By number, then longer intervals first: the first price of a time counts.
  std::map<std::pair<std::int64_t, std::int64_t>, CoveredIntervals> auctions_;
  std::string money_;
  std::size_t points_ = 0;
};

}  // namespace

Result<DayAheadPrices> parse_entsoe_prices(std::string_view xml, WholeSeconds step,
                                           const std::string& zone) {
  if (step.count() <= 0 || whole_days(1) % step != WholeSeconds(0)) {
    return entsoe_error("the step does not divide a day");
  }
  pugi::xml_document document;
  const pugi::xml_node root = HARPE_TRY(entsoe_root(document, xml, "Publication_MarketDocument"));
  PriceReader reader(step);
  HARPE_TRY(reader.read(root));
  return reader.finish(zone);
}

}  // namespace harpe::carbon
