#include "harpe/carbon/carbon_source/open_source.h"

#include <cmath>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/exogenous_source.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/carbon/carbon_source/source_link.h"

namespace harpe::carbon {
namespace {

/// Returns the options of links to all providers.
/// \param calls  limit per 60 s, well below the limit of the provider
SourceLinkOptions provider_link_options(const SourceEnvironment& environment, std::string provider,
                                        std::string token_advice, int calls) {
  return {.provider = std::move(provider),
          .token_advice = std::move(token_advice),
          .timeout = environment.timeout,
          .calls = calls,
          .seed = environment.seed,
          .ca_file = environment.variable("HARPE_CARBON_CA_FILE").value_or("")};
}

/// Returns the places that are searched for a token, and how to get one.
std::string token_advice_of(const ApiTokenNames& names) {
  return "Check the token in " + names.variable + " or ~/.config/harpe/" + names.file + ". " +
         names.advice;
}

ApiTokenNames entsoe_token_names() {
  return {.variable = "HARPE_ENTSOE_TOKEN",
          .file = "entsoe.token",
          .advice =
              "Register at https://transparency.entsoe.eu and ask transparency@entsoe.eu for "
              "access to the RESTful API"};
}

SourceLinkOptions entsoe_link_options(const SourceEnvironment& environment) {
  constexpr int kCalls = 100;
  SourceLinkOptions options =
      provider_link_options(environment, "ENTSO-E", token_advice_of(entsoe_token_names()), kCalls);
  options.expected_type = "xml";
  options.also_read = 400;  // status of a document without data
  return options;
}

using Provider = SourceSpecification::Provider;

constexpr WholeSeconds kConstantStep{3600};
constexpr std::size_t kLongestConstant = 100'000;
/// The first 28 days of exogenous values determine their scale; learning begins after them.
constexpr WholeSeconds kBackfillWithExogenous = whole_days(90);

/// One intensity at all times.
class ConstantSource final : public CarbonSource {
 public:
  ConstantSource(CarbonIntensity constant, UtcNow now)
      : constant_(std::move(constant)), now_(std::move(now)) {}

  SourceIdentity identity() const override {
    return {.provider = "constant", .zone = constant_.zone, .kind = constant_.kind};
  }
  Result<LabelledIntensity> current() override {
    return LabelledIntensity{.intensity = constant_,
                             .start = interval_of(now_(), kConstantStep),
                             .step = kConstantStep,
                             .ladder = LadderStep::kYearlyMean};
  }
  Result<LabelledForecast> forecast(WholeSeconds horizon) override {
    const UtcTime now = now_();
    LabelledForecast made{.expected = HARPE_TRY(series(now, now + horizon)),
                          .lower = {},
                          .upper = {},
                          .ladder = ForecastStep::kPersistence,
                          .issued_at = now,
                          .fetched_at = now};
    return made;
  }
  Result<LabelledHistory> history(UtcTime from, UtcTime to) override {
    IntensitySeries values = HARPE_TRY(series(from, to));
    std::vector<std::int64_t> fetched(values.size(), 0);
    return LabelledHistory{.series = std::move(values), .fetched_at = std::move(fetched)};
  }
  std::string method() const override { return {}; }

 private:
  Result<IntensitySeries> series(UtcTime from, UtcTime to) const {
    from = interval_of(from, kConstantStep);
    const auto size = (to - from + kConstantStep - WholeSeconds(1)) / kConstantStep;
    if (size < 1 || size > static_cast<std::int64_t>(kLongestConstant)) {
      return Error::invalid("expected a time of 1 h to 11 years");
    }
    const auto count = static_cast<std::size_t>(size);
    return IntensitySeries{.start = from,
                           .step = kConstantStep,
                           .values = std::vector<double>(count, constant_.grams_per_kwh),
                           .estimated = std::vector<std::uint8_t>(count, 0),
                           .kind = constant_.kind,
                           .zone = constant_.zone,
                           .source = constant_.source};
  }

  CarbonIntensity constant_;
  UtcNow now_;
};

/// A provider with its link, cache and chain.
class ProvidedSource final : public CarbonSource {
 public:
  static Result<std::unique_ptr<CarbonSource>> open(const SourceSpecification& specification,
                                                    SourceEnvironment environment) {
    auto opened =
        std::unique_ptr<ProvidedSource>(new ProvidedSource(specification, std::move(environment)));
    HARPE_TRY(opened->make());
    return std::unique_ptr<CarbonSource>(std::move(opened));
  }

  SourceIdentity identity() const override { return source_->identity(); }
  Result<LabelledIntensity> current() override { return chain_->current(); }
  Result<LabelledForecast> forecast(WholeSeconds horizon) override {
    return chain_->forecast(horizon);
  }
  Result<LabelledHistory> history(UtcTime from, UtcTime to) override {
    return chain_->history(from, to);
  }
  ForecastRecord record(const LabelledForecast& of) override { return chain_->record(of); }
  std::string method() const override {
    if (specification_.provider != Provider::kEntsoe) return {};
    return "generation of the zone without imports, times emission factors in g/kWh: " +
           emission_factors_text(specification_.factors);
  }

 private:
  ProvidedSource(const SourceSpecification& specification, SourceEnvironment environment)
      : specification_(specification),
        environment_(std::move(environment)),
        // The values of a file need no cache.
        cache_(specification.provider == Provider::kFile ? "" : environment_.cache) {}

  Status make() {
    source_ = HARPE_TRY(provider());
    IntensityChainOptions options{
        .yearly_mean = specification_.yearly_mean,
        // A file needs no network.
        .offline = environment_.offline && specification_.provider != Provider::kFile};
    if (!specification_.exogenous.empty())
      exogenous_ = exogenous_file(specification_.exogenous, specification_.known_ahead);
    if (exogenous_) {
      options.exogenous = exogenous_;
      options.backfill = kBackfillWithExogenous;
    }
    chain_.emplace(*source_, cache_, environment_.now, std::move(options));
    return ok_status();
  }

  Result<std::unique_ptr<IntensitySource>> provider() {
    switch (specification_.provider) {
      case Provider::kElectricityMaps:
        return electricity_maps();
      case Provider::kWattTime:
        return watttime();
      case Provider::kUk:
        return uk();
      case Provider::kEntsoe:
        return entsoe();
      case Provider::kFile:
      case Provider::kConstant:
        break;
    }
    UtcNow read_at = environment_.file_read_at;
    if (!read_at) read_at = [opened = environment_.now()] { return opened; };
    const std::string text = HARPE_TRY(environment_.read(specification_.path));
    IntensitySeries series =
        HARPE_TRY(parse_intensity_csv(text, specification_.path, specification_.csv));
    return make_series_source("file", std::move(series), environment_.now, std::move(read_at));
  }

  SourceLink& link(SourceLinkOptions options) {
    link_.emplace(*fetcher_, environment_.clock, environment_.now, std::move(options), &cache_);
    return *link_;
  }
  SourceLink& link(std::string provider, std::string advice, int calls) {
    return link(provider_link_options(environment_, std::move(provider), std::move(advice), calls));
  }

  Result<ProviderAccess> access(const ApiTokenNames* names) {
    fetcher_ = HARPE_TRY(net::HttpFetcher::open());
    ProviderAccess access{.url = specification_.url, .token = {}, .now = environment_.now};
    if (names != nullptr && !environment_.offline) {
      access.token = HARPE_TRY(find_api_token(*names, environment_.variable));
    }
    return access;
  }

  Result<std::unique_ptr<IntensitySource>> electricity_maps() {
    const ApiTokenNames names{
        .variable = "HARPE_ELECTRICITY_MAPS_TOKEN",
        .file = "electricity-maps.token",
        .advice =
            "Get one at https://app.electricitymaps.com; a free one is for one zone and has "
            "no forecast"};
    ProviderAccess found = HARPE_TRY(access(&names));
    return make_electricity_maps(
        link("Electricity Maps", token_advice_of(names), 60), std::move(found),
        {.zone = specification_.zone,
         .kind = specification_.kind.value_or(IntensityKind::kAverageLifecycle),
         .version = specification_.version,
         .step = specification_.step,
         .estimations = specification_.estimations});
  }

  Result<std::unique_ptr<IntensitySource>> watttime() {
    const ApiTokenNames names{
        .variable = "HARPE_WATTTIME_TOKEN",
        .file = "watttime.token",
        .advice =
            "It is USER:PASSWORD of an account; register by POST to "
            "https://api.watttime.org/register. Without a plan, CAISO_NORTH is open"};
    ProviderAccess found = HARPE_TRY(access(&names));
    return std::unique_ptr<IntensitySource>(
        make_watttime(link("WattTime", token_advice_of(names), 60), std::move(found),
                      {.region = specification_.zone, .signal = specification_.signal}));
  }

  Result<std::unique_ptr<IntensitySource>> uk() {
    ProviderAccess found = HARPE_TRY(access(nullptr));
    std::optional<int> region;
    if (const auto number = parse_integer(specification_.zone)) region = static_cast<int>(*number);
    return make_uk(link("carbonintensity.org.uk", "It needs no token", 60), std::move(found),
                   region);
  }

  Result<std::unique_ptr<IntensitySource>> entsoe() {
    const ApiTokenNames names = entsoe_token_names();
    ProviderAccess found = HARPE_TRY(access(&names));
    auto source = make_entsoe(link(entsoe_link_options(environment_)), std::move(found),
                              specification_.zone, specification_.step, specification_.factors);
    if (!environment_.offline)
      exogenous_ =
          exogenous_day_ahead(*source, cache_.folder(source->identity()), environment_.now);
    return std::unique_ptr<IntensitySource>(std::move(source));
  }

  SourceSpecification specification_;
  SourceEnvironment environment_;
  IntensityCache cache_;
  std::unique_ptr<net::HttpFetcher> fetcher_;
  std::optional<SourceLink> link_;
  std::unique_ptr<IntensitySource> source_;
  ExogenousSource exogenous_;
  std::optional<IntensityChain> chain_;
};

}  // namespace

Result<std::unique_ptr<CarbonSource>> open_source(const SourceSpecification& source,
                                                  SourceEnvironment environment) {
  if (source.provider == Provider::kConstant) {
    return std::unique_ptr<CarbonSource>(
        std::make_unique<ConstantSource>(source.constant, std::move(environment.now)));
  }
  return ProvidedSource::open(source, std::move(environment));
}

Result<std::unique_ptr<CarbonSource>> open_source(std::string_view text,
                                                  SourceEnvironment environment) {
  const SourceSpecification source = HARPE_TRY(parse_source(text));
  return open_source(source, std::move(environment));
}

Result<DayAheadPrices> day_ahead_prices(const SourceSpecification& source,
                                        const SourceEnvironment& environment, UtcTime from,
                                        UtcTime to) {
  if (source.provider != SourceSpecification::Provider::kEntsoe) {
    return Error::of(ErrorCode::kNotSupported,
                     "prices are available only from entsoe:EIC; for other prices, give a file to "
                     "harpe carbon simulate --price");
  }
  if (environment.offline) {
    return Error::of(ErrorCode::kNotSupported,
                     "prices are not cached: they are not available offline");
  }
  const auto fetcher = HARPE_TRY(net::HttpFetcher::open());
  const ProviderAccess access{
      .url = source.url,
      .token = HARPE_TRY(find_api_token(entsoe_token_names(), environment.variable)),
      .now = environment.now};
  SourceLink link(*fetcher, environment.clock, environment.now, entsoe_link_options(environment));
  return fetch_entsoe_prices(link, access, source.zone, source.step, from, to);
}

}  // namespace harpe::carbon
