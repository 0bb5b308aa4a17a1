#include "harpe/training/wire/cluster_terms.h"

#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/energy_price.h"
#include "harpe/carbon/carbon/intensity.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr double kMostHours = 10 * 365.25 * 24;
constexpr double kLeastHours = 1e-3;
constexpr double kHighestPue = 10;
constexpr double kMostPowerOfANode = 1e6;  // W
constexpr int kMostGpusOfANode = 1'000'000;

void read_price(Fields& fields, Json& terms) {
  const std::string text = short_text(fields, "price");
  if (fields.any("price") == nullptr) return;
  const Result<carbon::EnergyPrice> price = carbon::parse_energy_price(text);
  if (!price.ok()) return fields.error("price", price.error().text());
  terms["price"] = text;
}

void read_carbon(Fields& fields, Json& terms) {
  const JsonValue* given = fields.any("carbon");
  if (given == nullptr) return;
  if (given->type != Type::kString && given->type != Type::kNumber) {
    return fields.error("carbon", "expected a country's code such as \"DE\", or g/kWh");
  }
  const std::string text =
      given->type == Type::kNumber ? shortest(given->number) : short_text(fields, "carbon");
  const Result<CarbonIntensity> intensity = parse_intensity(text);
  if (!intensity.ok()) return fields.error("carbon", intensity.error().text());
  terms["carbon"] = text;
}

}  // namespace

std::string read_cluster_terms(Fields& fields) {
  Json terms = Json::object();
  read_price(fields, terms);
  read_carbon(fields, terms);
  if (const auto pue = fields.number("pue", 1, kHighestPue)) terms["pue"] = *pue;
  if (const auto hours = fields.number("hours", kLeastHours, kMostHours)) terms["hours"] = *hours;
  if (const auto power = fields.number("host_power", 0, kMostPowerOfANode)) {
    terms["host_power"] = *power;
  }
  if (const auto gpus = fields.integer("gpus_per_node", 1, kMostGpusOfANode)) {
    terms["gpus_per_node"] = *gpus;
  }
  return json_line(terms);
}

Result<std::string> parse_cluster_terms(std::string_view text) {
  return read_document<std::string>(
      text, "the cluster's terms",
      [](Fields& fields, Diagnostics&, std::string& terms) { terms = read_cluster_terms(fields); });
}

}  // namespace harpe::training
