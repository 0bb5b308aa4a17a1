// Providers over real sockets. The server's answers are written from the providers' documentation;
// none was recorded.

#include "harpe/carbon/carbon_source/provider_sources.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::carbon {
namespace {

UtcTime provider_time(const std::string& text) {
  return parse_utc(text).value();
}

/// All dependencies of a source, with a server scripted by the test.
class Rig {
 public:
  explicit Rig(net::ScriptedHttpServer::Script script, std::string type = "json", int also_read = 0)
      : server(std::move(script)),
        link(*fetcher, clock, [this] { return now; },
             {.provider = "Example",
              .token_advice = "Get a token",
              .expected_type = std::move(type),
              .also_read = also_read,
              .calls = 1000}) {}

  ProviderAccess access() {
    return {.url = server.url(), .token = "s3cret", .now = [this] { return now; }};
  }
  /// Returns the first line of each request, without "GET " and the version.
  std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    for (const std::string& request : server.requests()) {
      paths.push_back(request.substr(4, request.find(" HTTP/") - 4));
    }
    return paths;
  }

  UtcTime now = provider_time("2026-01-15T10:20Z");
  ManualClock clock;
  net::ScriptedHttpServer server;
  std::unique_ptr<net::HttpFetcher> fetcher = *net::HttpFetcher::open();
  SourceLink link;
};

/// Returns hourly values of Electricity Maps from `from` to `to`, in a list named `list`.
std::string maps_list(const char* list, UtcTime from, UtcTime to) {
  std::string items;
  for (UtcTime time = from; time < to; time += whole_hours(1)) {
    items += (items.empty() ? "" : ",") + std::string(R"({"carbonIntensity": )") +
             std::to_string(100 + time.since_1970 / 3600 % 24) + R"(, "datetime": ")" +
             utc_text(time) + "\"}";
  }
  return R"({"zone": "DE", ")" + std::string(list) + "\": [" + items + "]}";
}

/// Returns the value of a query parameter. Decodes only %3A, which times contain.
std::string parameter(const std::string& request, const std::string& name) {
  const std::size_t begin = request.find(name + "=") + name.size() + 1;
  std::string value = request.substr(begin, request.find_first_of("& ", begin) - begin);
  for (std::size_t i = 0; (i = value.find("%3A", i)) != std::string::npos;)
    value.replace(i, 3, ":");
  return value;
}

TEST(ElectricityMapsSource, AsksWithItsTokenAndTheZoneOfTheUser) {
  Rig rig([](const std::string&) {
    return net::scripted_response(
        200, R"({"zone": "DE", "carbonIntensity": 302, "datetime": "2026-01-15T10:00:00.000Z"})");
  });
  const auto source =
      make_electricity_maps(rig.link, rig.access(), {.zone = "DE", .version = "v4"});
  const auto latest = source->latest();
  ASSERT_TRUE(latest.ok()) << latest.error().text();
  EXPECT_EQ(latest->series.values, std::vector<double>{302});
  EXPECT_EQ(latest->fetched_at, rig.now);
  EXPECT_EQ(rig.paths()[0],
            "/v4/carbon-intensity/latest?zone=DE&emissionFactorType=lifecycle"
            "&temporalGranularity=hourly&disableCallerLookup=true");
  EXPECT_NE(rig.server.requests()[0].find("auth-token: s3cret\r\n"), std::string::npos);
}

TEST(ElectricityMapsSource, TakesTheLastDayFromHistoryAndMoreInPartsOfTenDays) {
  Rig rig([](const std::string& request) {
    if (request.find("/history?") != std::string::npos) {
      return net::scripted_response(200, maps_list("history", provider_time("2026-01-14T11:00Z"),
                                                   provider_time("2026-01-15T11:00Z")));
    }
    return net::scripted_response(200, maps_list("data", provider_time(parameter(request, "start")),
                                                 provider_time(parameter(request, "end"))));
  });
  const auto source = make_electricity_maps(rig.link, rig.access(), {.zone = "DE"});
  const auto day =
      source->history(provider_time("2026-01-15T00:00Z"), provider_time("2026-01-15T10:00Z"));
  ASSERT_TRUE(day.ok()) << day.error().text();
  EXPECT_EQ(day->series.size(), 10u);
  ASSERT_EQ(rig.server.count(), 1u);
  const auto month =
      source->history(provider_time("2025-12-15T00:00Z"), provider_time("2026-01-15T00:00Z"));
  ASSERT_TRUE(month.ok()) << month.error().text();
  EXPECT_EQ(month->series.size(), 31u * 24);
  EXPECT_EQ(month->series.gaps(), 0u);
  EXPECT_EQ(rig.server.count(), 1u + 4);  // parts of 10, 10, 10 and 1 days
}

TEST(ElectricityMapsSource, AsksForAHorizonThatThereIsAndKeepsWhenItWasIssued) {
  Rig rig([](const std::string&) {
    return net::scripted_response(200,
                                  R"({"zone": "DE", "forecast": [{"carbonIntensity": 1, "datetime":
                 "2026-01-15T10:00:00.000Z"}], "updatedAt": "2026-01-15T10:05:00.000Z"})");
  });
  const auto source = make_electricity_maps(rig.link, rig.access(), {.zone = "DE"});
  for (const auto& [wanted, asked] :
       {std::pair(1, 6), std::pair(6, 6), std::pair(7, 24), std::pair(25, 48), std::pair(96, 72)}) {
    const auto forecast = source->forecast(whole_hours(wanted));
    ASSERT_TRUE(forecast.ok()) << forecast.error().text();
    EXPECT_EQ(utc_text(forecast->issued_at.value()), "2026-01-15T10:05:00Z");
    EXPECT_EQ(parameter(rig.paths().back(), "horizonHours"), std::to_string(asked));
  }
}

/// Logins return token1, token2, ... Data requests are answered only with the token `valid`.
struct WattTimeServer {
  int logins = 0;
  std::string valid = {};
  std::string answer(const std::string& request) {
    if (request.starts_with("GET /login ")) {
      // base64 of "user:password".
      if (request.find("Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n") == std::string::npos) {
        return net::scripted_response(401, "{}");
      }
      valid = "token" + std::to_string(++logins);
      return net::scripted_response(200, R"({"token": ")" + valid + "\"}");
    }
    if (request.find("Authorization: Bearer " + valid + "\r\n") == std::string::npos) {
      return net::scripted_response(401, R"({"error": "token has expired"})");
    }
    return net::scripted_response(
        200, R"({"data": [{"point_time": "2026-01-15T10:15:00+00:00", "value": 1000}],
                 "meta": {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units":
                          "lbs_co2_per_mwh", "data_point_period_seconds": 300}})");
  }
};

TEST(WattTimeSource, LogsInOnceAndOnceAgainWhenTheTokenIsTooOld) {
  WattTimeServer server;
  bool expire = false;
  Rig rig([&](const std::string& request) {
    if (expire) server.valid = "gone", expire = false;
    return server.answer(request);
  });
  ProviderAccess access = rig.access();
  access.token = "user:password";
  const auto source = make_watttime(rig.link, access, {.region = "CAISO_NORTH"});
  ASSERT_TRUE(source->latest().ok());
  ASSERT_TRUE(source->latest().ok());
  EXPECT_EQ(rig.server.count(), 3u);  // one login
  EXPECT_NEAR(source->latest()->series.values[0], 453.59237, 1e-9);
  expire = true;
  ASSERT_TRUE(source->latest().ok());
  EXPECT_EQ(server.logins, 2);
}

TEST(WattTimeSource, ARefusalAfterALoginIsFinal) {
  int logins = 0;
  Rig rig([&](const std::string& request) {
    if (request.starts_with("GET /login ")) {
      ++logins;
      return net::scripted_response(200, R"({"token": "t"})");
    }
    return net::scripted_response(403, "{}");
  });
  const auto source = make_watttime(rig.link, rig.access(), {.region = "PJM"});
  EXPECT_EQ(source->latest().error().code, ErrorCode::kNoPermission);
  EXPECT_EQ(logins, 1);
  EXPECT_EQ(rig.server.count(), 2u);
}

TEST(WattTimeSource, AsksForHistoryInPartsOf32Days) {
  WattTimeServer server;
  Rig rig([&](const std::string& request) { return server.answer(request); });
  ProviderAccess access = rig.access();
  access.token = "user:password";
  const auto source = make_watttime(rig.link, access, {.region = "CAISO_NORTH"});
  ASSERT_TRUE(
      source->history(provider_time("2025-11-01T00:00Z"), provider_time("2026-01-16T00:00Z")).ok());
  ASSERT_EQ(rig.server.count(), 1u + 3);
  EXPECT_EQ(parameter(rig.paths()[1], "start"), "2025-11-01T00:00:00Z");
  EXPECT_EQ(parameter(rig.paths()[3], "end"), "2026-01-16T00:00:00Z");
}

TEST(UkSource, AsksByTheFormsOfItsPathsAndWritesNoSeconds) {
  Rig rig([](const std::string& request) {
    const bool region = request.find("regionid") != std::string::npos;
    const std::string values =
        R"({"from": "2026-01-15T10:00Z", "to": "2026-01-15T10:30Z",
            "intensity": {"forecast": 120, "actual": null}})";
    return net::scripted_response(200,
                                  region ? R"({"data": {"regionid": 13, "data": [)" + values + "]}}"
                                         : R"({"data": [)" + values + "]}");
  });
  const auto country = make_uk(rig.link, rig.access(), std::nullopt);
  EXPECT_TRUE(country->latest().ok());
  EXPECT_TRUE(country->forecast(whole_hours(24)).ok());
  EXPECT_TRUE(
      country->history(provider_time("2026-01-15T10:00Z"), provider_time("2026-01-15T10:30Z"))
          .ok());
  const auto london = make_uk(rig.link, rig.access(), 13);
  EXPECT_TRUE(london->latest().ok());
  EXPECT_TRUE(london->forecast(whole_hours(48)).ok());
  EXPECT_EQ(rig.paths(),
            (std::vector<std::string>{"/intensity", "/intensity/2026-01-15T10:01Z/fw24h",
                                      "/intensity/2026-01-15T10:01Z/2026-01-15T10:30Z",
                                      "/regional/regionid/13",
                                      "/regional/intensity/2026-01-15T10:01Z/fw48h/regionid/13"}));
  EXPECT_EQ(rig.server.requests()[0].find("s3cret"), std::string::npos);
}

TEST(EntsoeSource, NoDataComesWithStatus400AndTheTokenStaysOutOfErrors) {
  Rig rig(
      [](const std::string&) {
        return net::scripted_response(
            400,
            "<Acknowledgement_MarketDocument><Reason><code>999</code><text>No matching data "
            "found</text></Reason></Acknowledgement_MarketDocument>",
            "Content-Type: text/xml\r\n");
      },
      "xml", 400);
  const auto source = make_entsoe(rig.link, rig.access(), "10Y1001A1001A82H", whole_hours(1),
                                  default_emission_factors());
  const auto latest = source->latest();
  ASSERT_FALSE(latest.ok());
  EXPECT_EQ(latest.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(latest.error().text(), "ENTSO-E reports: 'No matching data found'");
  EXPECT_EQ(rig.paths()[0],
            "/api?securityToken=s3cret&documentType=A75&processType=A16&in_Domain=10Y1001A1001A82H"
            "&periodStart=202601142200&periodEnd=202601151100");
  EXPECT_FALSE(source->forecast(whole_hours(1)).ok());
}

TEST(EntsoeSource, ReadsGenerationAndWhatIsForecastADayAhead) {
  Rig rig(
      [](const std::string& request) {
        const bool load = request.find("documentType=A65") != std::string::npos;
        const std::string domain =
            load ? "<outBiddingZone_Domain.mRID>x</outBiddingZone_Domain.mRID>"
                 : "<inBiddingZone_Domain.mRID>x</inBiddingZone_Domain.mRID><MktPSRType><psrType>"
                   "B04</psrType></MktPSRType>";
        return net::scripted_response(
            200,
            "<GL_MarketDocument><TimeSeries>" + domain +
                "<curveType>A03</curveType><Period><timeInterval><start>2026-01-15T08:00Z</start>"
                "<end>2026-01-15T10:00Z</end></timeInterval><resolution>PT60M</resolution><Point>"
                "<position>1</position><quantity>500</quantity></Point></Period></TimeSeries>"
                "</GL_MarketDocument>",
            "Content-Type: application/xml\r\n");
      },
      "xml", 400);
  const auto source = make_entsoe(rig.link, rig.access(), "10Y1001A1001A82H", whole_hours(1),
                                  default_emission_factors());
  EXPECT_EQ(source->latest().value().series.values, (std::vector<double>{490, 490}));
  const auto load =
      source->day_ahead(EntsoeSource::DayAhead::kLoad, provider_time("2026-01-15T08:00Z"),
                        provider_time("2026-01-15T10:00Z"));
  ASSERT_TRUE(load.ok()) << load.error().text();
  EXPECT_EQ(load->megawatts.at("load"), (std::vector<double>{500, 500}));
}

std::string hour_of_price(const std::string& start, const std::string& end, const char* money,
                          double price) {
  return "<Publication_MarketDocument><TimeSeries><currency_Unit.name>" + std::string(money) +
         "</currency_Unit.name><price_Measure_Unit.name>MWH</price_Measure_Unit.name><curveType>A03"
         "</curveType><Period><timeInterval><start>" +
         start + "</start><end>" + end +
         "</end></timeInterval><resolution>PT60M</resolution><Point><position>1</position>"
         "<price.amount>" +
         std::to_string(price) +
         "</price.amount></Point></Period></TimeSeries></Publication_MarketDocument>";
}

constexpr const char* kXml = "Content-Type: application/xml\r\n";
constexpr const char* kNoPrice =
    "<Acknowledgement_MarketDocument><Reason><text>none</text></Reason>"
    "</Acknowledgement_MarketDocument>";

Result<DayAheadPrices> prices_of(Rig& rig, const std::string& from, const std::string& to) {
  return fetch_entsoe_prices(rig.link, rig.access(), "10Y1001A1001A82H", whole_hours(1),
                             provider_time(from), provider_time(to));
}

TEST(EntsoePriceSource, AreAskedForByTheMonthAndCutToTheTimeThatIsWanted) {
  Rig rig(
      [](const std::string& request) {
        const bool january = request.find("periodStart=20260101") != std::string::npos;
        // The provider sends whole days.
        return january
                   ? net::scripted_response(
                         200, hour_of_price("2025-12-31T23:00Z", "2026-01-01T23:00Z", "EUR", -5),
                         kXml)
                   : net::scripted_response(400, kNoPrice, kXml);
      },
      "xml", 400);
  const auto prices = prices_of(rig, "2026-01-01T10:00Z", "2026-02-10T00:00Z");
  ASSERT_TRUE(prices.ok()) << prices.error().text();
  EXPECT_EQ(prices->money, "EUR");
  EXPECT_EQ(prices->prices.series.values, std::vector<double>(13, -5));
  EXPECT_EQ(prices->prices.series.start, provider_time("2026-01-01T10:00Z"));
  EXPECT_EQ(prices->prices.fetched_at, rig.now);
  ASSERT_EQ(rig.server.count(), 2U);
  EXPECT_EQ(
      rig.paths()[0],
      "/api?securityToken=s3cret&documentType=A44&contract_MarketAgreement.type=A01&in_Domain="
      "10Y1001A1001A82H&out_Domain=10Y1001A1001A82H&periodStart=202601011000&periodEnd="
      "202602011000");
}

TEST(EntsoePriceSource, FaultsAreSaidWithoutTheToken) {
  std::vector<std::string> answers;
  Rig rig(
      [&](const std::string&) {
        const std::string answer = answers.front();
        if (answers.size() > 1) answers.erase(answers.begin());
        return answer;
      },
      "xml", 400);
  const auto ask = [&](std::vector<std::string> script) {
    answers = std::move(script);
    return prices_of(rig, "2026-01-01T00:00Z", "2026-01-02T00:00Z");
  };
  const std::string good = net::scripted_response(
      200, hour_of_price("2026-01-01T00:00Z", "2026-01-02T00:00Z", "EUR", 1), kXml);
  EXPECT_TRUE(ask({net::scripted_response(503, ""), net::scripted_response(429, ""), good}).ok());
  struct Fault {
    std::string answer;
    ErrorCode code;
  };
  for (const Fault& fault :
       {Fault{net::scripted_response(401, ""), ErrorCode::kNoPermission},
        {net::scripted_response(400, kNoPrice, kXml), ErrorCode::kNotFound},
        {net::scripted_response(200, "<html/>", "Content-Type: text/html\r\n"),
         ErrorCode::kUnavailable},
        {net::scripted_response(200, "<GL_MarketDocument/>", kXml), ErrorCode::kInvalidInput},
        {net::scripted_response(200, good.substr(good.size() / 2), kXml),
         ErrorCode::kInvalidInput}}) {
    const auto prices = ask({fault.answer});
    ASSERT_FALSE(prices.ok());
    EXPECT_EQ(prices.error().code, fault.code) << prices.error().text();
    EXPECT_EQ(prices.error().text().find("s3cret"), std::string::npos) << prices.error().text();
  }
  // Prices of another day than requested.
  EXPECT_EQ(ask({net::scripted_response(
                    200, hour_of_price("2025-01-01T00:00Z", "2025-01-02T00:00Z", "EUR", 1), kXml)})
                .error()
                .code,
            ErrorCode::kNotFound);
}

TEST(EntsoePriceSource, OfTwoCurrenciesDoNotMixOverMonths) {
  Rig rig(
      [](const std::string& request) {
        const bool before = request.find("periodStart=202512") != std::string::npos;
        return net::scripted_response(
            200,
            before ? hour_of_price("2025-12-31T00:00Z", "2026-01-01T00:00Z", "BGN", 100)
                   : hour_of_price("2026-01-11T00:00Z", "2026-01-12T00:00Z", "EUR", 50),
            kXml);
      },
      "xml", 400);
  const auto prices = prices_of(rig, "2025-12-11T00:00Z", "2026-01-12T00:00Z");
  ASSERT_FALSE(prices.ok());
  EXPECT_NE(prices.error().text().find("prices in BGN and in EUR"), std::string::npos);
}

TEST(SeriesSource, TellsNoMoreThanHasHappened) {
  IntensitySeries series{.start = provider_time("2026-01-15T08:00Z"),
                         .step = whole_hours(1),
                         .values = {1, 2, 3, 4, 5},
                         .estimated = std::vector<std::uint8_t>(5, 0)};
  UtcTime now = provider_time("2026-01-15T10:20Z");
  const auto clock = [&] { return now; };
  const auto source = *make_series_source("file", series, clock, clock);
  EXPECT_EQ(source->latest().value().series.values, (std::vector<double>{1, 2, 3}));
  now = provider_time("2026-01-15T07:00Z");
  EXPECT_FALSE(source->latest().ok());
  EXPECT_EQ(source->history(provider_time("2026-01-15T09:00Z"), provider_time("2026-01-15T11:00Z"))
                .value()
                .series.values,
            (std::vector<double>{2, 3}));
}

TEST(SeriesSource, TakesRowsAfterNowForAForecast) {
  IntensitySeries series{.start = provider_time("2026-01-15T08:00:00Z"),
                         .step = WholeSeconds(5),
                         .values = {1, 2, 3, 4, 5},
                         .estimated = std::vector<std::uint8_t>(5, 0),
                         .source = "a.csv"};
  UtcTime now = provider_time("2026-01-15T08:00:06Z");
  const UtcTime read = provider_time("2026-01-15T08:00:05Z");
  const auto source =
      *make_series_source("file", series, [&] { return now; }, [&] { return read; });
  const auto forecast = source->forecast(WholeSeconds(15));
  ASSERT_TRUE(forecast.ok()) << forecast.error().text();
  EXPECT_EQ(forecast->series.start, provider_time("2026-01-15T08:00:05Z"));
  EXPECT_EQ(forecast->series.values, (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(forecast->issued_at, read);
  EXPECT_EQ(source->latest().value().fetched_at, read);
  EXPECT_EQ(forecast->series.source, "a.csv, rows of the file after the present");
  // There is no forecast if no value is after the present, or none at the present.
  now = provider_time("2026-01-15T08:00:20Z");
  EXPECT_EQ(source->forecast(WholeSeconds(15)).error().code, ErrorCode::kNotSupported);
  now = provider_time("2026-01-15T07:00:00Z");
  EXPECT_EQ(source->forecast(whole_hours(3)).error().code, ErrorCode::kNotSupported);
}

TEST(FetchInParts, LeavesOutPartsWithoutDataUnlessAllAre) {
  const auto hour = [](UtcTime begin) {
    return ProviderIntensity{.series = {.start = begin, .values = {7}, .estimated = {0}}};
  };
  const auto begin = provider_time("2026-01-15T00:00Z");
  int calls = 0;
  const auto some = fetch_in_parts(begin, begin + whole_hours(3), whole_hours(1),
                                   [&](UtcTime from, UtcTime) -> Result<ProviderIntensity> {
                                     if (++calls == 2)
                                       return Error::of(ErrorCode::kNotFound, "none");
                                     return hour(from);
                                   });
  ASSERT_TRUE(some.ok()) << some.error().text();
  EXPECT_EQ(some->series.size(), 3u);
  EXPECT_FALSE(some->series.known(1));
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kUnavailable}) {
    const auto none = fetch_in_parts(
        begin, begin + whole_hours(3), whole_hours(1),
        [&](UtcTime, UtcTime) -> Result<ProviderIntensity> { return Error::of(code, "x"); });
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, code);
  }
  EXPECT_FALSE(fetch_in_parts(begin, begin, whole_hours(1), [&](UtcTime from, UtcTime) {
                 return Result<ProviderIntensity>(hour(from));
               }).ok());
}

TEST(ProviderSources, OptionsThatChangeValuesArePartOfTheIdentity) {
  Rig rig([](const std::string&) { return net::scripted_response(200, "{}"); });
  const auto maps = [&](ElectricityMapsOptions options) {
    return make_electricity_maps(rig.link, rig.access(), std::move(options))->identity().options;
  };
  EXPECT_EQ(maps({.zone = "DE"}), "");
  EXPECT_NE(maps({.zone = "DE", .version = "v4"}), "");
  EXPECT_NE(maps({.zone = "DE", .estimations = false}), "");
  const auto entsoe = [&](std::vector<EmissionFactor> factors) {
    return make_entsoe(rig.link, rig.access(), "10Y1001A1001A82H", whole_hours(1),
                       std::move(factors))
        ->identity()
        .options;
  };
  EXPECT_EQ(entsoe(default_emission_factors()), "");
  EXPECT_NE(entsoe(*parse_emission_factors("B04=370")), "");
}

}  // namespace
}  // namespace harpe::carbon
