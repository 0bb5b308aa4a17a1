#pragma once
/// \file
/// A scripted provider of day-ahead prices, for tests.

#include <string>

#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::command {

/// Responds with 20 days of prices: the hour of the day minus 5, in EUR/MWh.
inline std::string prices_answer(const std::string& request) {
  if (request.find("documentType=A44") == std::string::npos) return net::scripted_response(404, "");
  std::string points;
  for (int i = 1; i <= 24 * 20; ++i) {
    points += "<Point><position>" + std::to_string(i) + "</position><price.amount>" +
              std::to_string((i - 1) % 24 - 5) + "</price.amount></Point>";
  }
  return net::scripted_response(
      200,
      "<Publication_MarketDocument><TimeSeries><currency_Unit.name>EUR</currency_Unit.name>"
      "<price_Measure_Unit.name>MWH</price_Measure_Unit.name><curveType>A03</curveType><Period>"
      "<timeInterval><start>2026-01-01T00:00Z</start><end>2026-01-21T00:00Z</end></timeInterval>"
      "<resolution>PT60M</resolution>" +
          points + "</Period></TimeSeries></Publication_MarketDocument>",
      "Content-Type: application/xml\r\n");
}

}  // namespace harpe::command
