#include "harpe/carbon/carbon_source/source_specification.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "harpe/base/decimal_comma.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/uk_intensity.h"

namespace harpe::carbon {
namespace {

using Provider = SourceSpecification::Provider;

struct ProviderWord {
  std::string_view word;
  Provider provider;
  std::string_view example;
  std::string_view options;  ///< separated by spaces
};

constexpr std::array kProviders = std::to_array<ProviderWord>(
    {{"electricity-maps", Provider::kElectricityMaps, "electricity-maps:DE",
      "kind version step estimations exogenous known-ahead mean url"},
     {"watttime", Provider::kWattTime, "watttime:CAISO_NORTH",
      "signal exogenous known-ahead mean url"},
     {"uk", Provider::kUk, "uk or uk:13", "exogenous known-ahead mean url"},
     {"entsoe", Provider::kEntsoe, "entsoe:10Y1001A1001A82H",
      "step factors exogenous known-ahead mean url"},
     {"file", Provider::kFile, "file:series.csv",
      "kind zone time value unit exogenous known-ahead mean"}});

std::string what_there_is() {
  std::string text =
      "a source is a number in g/kWh such as 302.5, a country's code such as DE (its yearly mean)";
  for (const ProviderWord& one : kProviders) text += ", " + std::string(one.example);
  return text;
}

Error unknown_source(std::string_view text) {
  std::vector<std::string> words = known_zones();
  for (const ProviderWord& one : kProviders) words.emplace_back(one.word);
  const std::string_view word = text.substr(0, text.find_first_of(":?"));
  auto near = nearest(lower(word), words);
  if (!near) near = nearest(word, words);
  if (const std::string hint = decimal_comma_hint(text); !hint.empty())
    return Error::invalid("unknown source " + in_quotes(text) + hint);
  return Error::invalid("unknown source " + in_quotes(text) +
                        (near ? "; did you mean " + *near + "? Otherwise, " : ": ") +
                        what_there_is());
}

bool is_zone_name(std::string_view zone) {
  return !zone.empty() && zone.size() <= 64 && std::ranges::all_of(zone, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

/// Returns true if the code is an EIC: 16 characters, the last of which is a check character over
/// the others (ENTSO-E, EIC reference manual: weights 16 down to 2, modulo 37).
bool is_eic(std::string_view code) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-";
  if (code.size() != 16) return false;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < 15; ++i) {
    const std::size_t digit = kDigits.find(code[i]);
    if (digit == std::string_view::npos) return false;
    sum += digit * (16 - i);
  }
  return kDigits[36 - (sum + 36) % 37] == code[15];
}

Status take_zone(const ProviderWord& word, std::string_view zone, SourceSpecification& source) {
  source.zone = std::string(zone);
  const std::string example(word.example);
  if (word.provider == Provider::kFile) {
    if (zone.empty()) return Error::invalid("the path of a file is missing, as in " + example);
    source.path = std::exchange(source.zone, {});
    return ok_status();
  }
  if (word.provider == Provider::kUk) {
    const auto region = parse_integer(zone);
    if (zone.empty() || (region && *region >= 1 && *region <= kUkRegions)) return ok_status();
    return Error::invalid("the regions of uk are 1 to " + std::to_string(kUkRegions) + ", not " +
                          in_quotes(zone));
  }
  if (!is_zone_name(zone)) {
    return Error::invalid(std::string(word.word) + " needs a zone, as in " + example);
  }
  if (word.provider == Provider::kEntsoe && !is_eic(zone)) {
    return Error::invalid(in_quotes(zone) +
                          " is not a valid EIC of an area: 16 characters, of which the last checks "
                          "the others, as in " +
                          example);
  }
  return ok_status();
}

/// Returns the position of an option's value among the words.
Result<std::size_t> word_of(std::string_view option, std::string_view value,
                            const std::vector<std::string>& words) {
  const auto found = std::ranges::find(words, value);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return Error::invalid("the option " + std::string(option) + " must be one of " + all + ", not " +
                        in_quotes(value));
}

Status take_kind(std::string_view value, SourceSpecification& source) {
  std::vector<std::string> words = {"life-cycle", "direct"};
  if (source.provider == Provider::kFile) words.emplace_back("marginal");
  const std::size_t word = HARPE_TRY(word_of("kind", value, words));
  constexpr std::array kKinds = {IntensityKind::kAverageLifecycle, IntensityKind::kAverageDirect,
                                 IntensityKind::kMarginal};
  source.kind = kKinds[word];
  source.csv.kind = source.kind;
  return ok_status();
}

Status take_step(std::string_view value, SourceSpecification& source) {
  std::vector<std::string> words = {"60", "15"};
  if (source.provider == Provider::kElectricityMaps) words.emplace_back("5");
  const std::size_t word = HARPE_TRY(word_of("step", value, words));
  source.step = whole_minutes(*parse_integer(words[word]));
  return ok_status();
}

Status take_factors(std::string_view value, SourceSpecification& source) {
  // The value has ':' in place of '=', which already separates option and value.
  std::string text(value);
  std::ranges::replace(text, ':', '=');
  source.factors = HARPE_TRY(parse_emission_factors(text));
  return ok_status();
}

Status take_url(std::string_view value, SourceSpecification& source) {
  while (value.ends_with('/')) value.remove_suffix(1);
  const bool web = value.starts_with("https://") || value.starts_with("http://");
  if (!web || value.find('@') != std::string_view::npos || value.size() > 500) {
    return Error::invalid("the option url must be https://HOST or https://HOST/PATH, not " +
                          in_quotes(value));
  }
  source.url = std::string(value);
  return ok_status();
}

Status take_known_ahead(std::string_view value, SourceSpecification& source) {
  const std::string_view digits = value.ends_with('h') ? value.substr(0, value.size() - 1) : value;
  const auto hours = parse_integer(digits);
  if (!hours || *hours < 0 || *hours > 96) {
    return Error::invalid("the option known-ahead must be 0h to 96h, not " + in_quotes(value));
  }
  source.known_ahead = whole_hours(*hours);
  return ok_status();
}

Status take_option(std::string_view name, std::string_view value, SourceSpecification& source) {
  if (name == "kind") return take_kind(value, source);
  if (name == "step") return take_step(value, source);
  if (name == "factors") return take_factors(value, source);
  if (name == "url") return take_url(value, source);
  if (name == "known-ahead") return take_known_ahead(value, source);
  if (name == "version") {
    source.version = HARPE_TRY(word_of(name, value, {"v3", "v4"})) == 0 ? "v3" : "v4";
  } else if (name == "signal") {
    source.signal =
        HARPE_TRY(word_of(name, value, {"co2_moer", "co2_aoer"})) == 0 ? "co2_moer" : "co2_aoer";
  } else if (name == "estimations") {
    source.estimations = HARPE_TRY(word_of(name, value, {"yes", "no"})) == 0;
  } else if (name == "mean") {
    source.yearly_mean = HARPE_TRY(parse_intensity(value)).grams_per_kwh;
  } else if (name == "unit") {
    source.csv.unit = HARPE_TRY(parse_intensity_unit(value));
  } else if (name == "exogenous") {
    source.exogenous = std::string(value);
  } else if (name == "zone") {
    source.csv.zone = std::string(value);
  } else if (name == "time") {
    source.csv.time_column = std::string(value);
  } else {
    source.csv.value_column = std::string(value);
  }
  return ok_status();
}

Status take_options(const ProviderWord& word, std::string_view text, SourceSpecification& source) {
  std::vector<std::string> known;
  for (std::string_view rest = word.options; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    known.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::set<std::string> seen;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view option = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = option.find('=');
    const std::string name(option.substr(0, equals));
    if (std::ranges::find(known, name) == known.end() || equals == std::string_view::npos) {
      if (name == "token" || name == "key") {
        return Error::invalid("a token belongs in the environment or in a file, not in a source");
      }
      std::string all;
      for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
      const auto near = nearest(name, known);
      return Error::invalid("the source " + std::string(word.word) + " has no option " +
                            in_quotes(option) + (near ? "; did you mean " + *near + "=?" : ".") +
                            " Its options are " + all);
    }
    if (!seen.insert(name).second) return Error::invalid("the option " + name + " is given twice");
    HARPE_TRY(take_option(name, option.substr(equals + 1), source));
  }
  return ok_status();
}

}  // namespace

Result<SourceSpecification> parse_source(std::string_view text) {
  text = trim(text);
  if (text.size() > 4096) return Error::invalid("a source has at most 4096 characters");
  const std::size_t end = std::min(text.find_first_of(":?"), text.size());
  const std::string_view name = text.substr(0, end);
  const auto word = std::ranges::find(kProviders, name, &ProviderWord::word);
  SourceSpecification source;
  if (word == kProviders.end()) {
    if (parse_number(text)) {
      source.constant = HARPE_TRY(parse_intensity(text));
      return source;
    }
    const auto mean = parse_intensity(text);
    if (!mean.ok()) return unknown_source(text);
    source.constant = *mean;
    return source;
  }
  source.provider = word->provider;
  source.factors = default_emission_factors();
  std::string_view rest = text.substr(end);
  const std::size_t question = std::min(rest.find('?'), rest.size());
  std::string_view zone = rest.substr(0, question);
  if (zone.starts_with(':')) zone.remove_prefix(1);
  HARPE_TRY(take_zone(*word, zone, source));
  HARPE_TRY(take_options(*word, rest.substr(std::min(question + 1, rest.size())), source));
  return source;
}

}  // namespace harpe::carbon
