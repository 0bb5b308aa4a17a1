#include <limits>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/zeus_routes.h"

namespace harpe::training {
namespace {

using Type = JsonValue::Type;

constexpr int kMostRanks = 1'000'000;
constexpr std::size_t kLongestName = 1024;  // bytes
constexpr std::size_t kMostErrors = 32;     // in one response

/// Errors of a request in the format of FastAPI.
class InvalidRequest {
 public:
  void add(const net::OrderedJson& location, const std::string& message, const std::string& type) {
    if (details_.size() == kMostErrors) return;
    details_.push_back({{"loc", location}, {"msg", message}, {"type", type}});
  }
  bool empty() const { return details_.empty(); }
  net::HttpResponse response() const { return net::json_response(422, {{"detail", details_}}); }

 private:
  net::OrderedJson details_ = net::OrderedJson::array();
};

/// The members of one body.
class Body {
 public:
  Body(std::string_view text, InvalidRequest& invalid) : invalid_(invalid) {
    Result<JsonValue> parsed = parse_json(text, "body");
    if (!parsed.ok()) {
      invalid_.add({"body"}, parsed.error().text(), "value_error.jsondecode");
      return;
    }
    document_ = *std::move(parsed);
    if (document_.type != Type::kObject) {
      invalid_.add({"body"}, "value is not a valid dict", "type_error.dict");
    }
  }

  /// Returns null if the member is missing; adds an error if it is required.
  const JsonValue* member(const char* name, bool must = true) {
    if (document_.type != Type::kObject) return nullptr;
    const JsonValue* value = document_.find(name);
    if (value == nullptr && must) {
      invalid_.add({"body", name}, "field required", "value_error.missing");
    }
    return value;
  }

  int integer(const char* name, int lowest) {
    const JsonValue* value = member(name);
    if (value == nullptr) return lowest;
    if (value->type != Type::kNumber || !value->is_integer) {
      invalid_.add({"body", name}, "value is not a valid integer", "type_error.integer");
      return lowest;
    }
    if (value->integer < lowest || value->integer > kMostRanks) {
      invalid_.add({"body", name},
                   "ensure this value is from " + std::to_string(lowest) + " to " +
                       std::to_string(kMostRanks),
                   "value_error.number");
      return lowest;
    }
    return static_cast<int>(value->integer);
  }

  std::vector<double> numbers(const char* name) {
    const JsonValue* value = member(name);
    return value == nullptr ? std::vector<double>() : numbers_of(*value, {"body", name});
  }

  ZeusBreakdown breakdown(const char* name) {
    ZeusBreakdown breakdown;
    const JsonValue* value = member(name, false);
    if (value == nullptr) return breakdown;
    if (value->type != Type::kObject) {
      invalid_.add({"body", name}, "value is not a valid dict", "type_error.dict");
      return breakdown;
    }
    for (const auto& [instruction, iterations] : value->members) {
      if (iterations.type != Type::kArray) {
        invalid_.add({"body", name, instruction}, "value is not a valid list", "type_error.list");
        continue;
      }
      auto& lists = breakdown[instruction];
      for (const JsonValue& iteration : iterations.items) {
        lists.push_back(numbers_of(iteration, {"body", name, instruction}));
      }
    }
    return breakdown;
  }

 private:
  std::vector<double> numbers_of(const JsonValue& value, const net::OrderedJson& location) {
    std::vector<double> numbers;
    if (value.type != Type::kArray) {
      invalid_.add(location, "value is not a valid list", "type_error.list");
      return numbers;
    }
    for (const JsonValue& item : value.items) {
      if (item.type != Type::kNumber) {
        invalid_.add(location, "value is not a valid float", "type_error.float");
        return numbers;
      }
      numbers.push_back(item.number);
    }
    return numbers;
  }

  InvalidRequest& invalid_;
  JsonValue document_;
};

}  // namespace

ZeusRead<ZeusJobInfo> read_zeus_job(std::string_view text) {
  InvalidRequest invalid;
  Body body(text, invalid);
  ZeusJobInfo info;
  if (const JsonValue* id = body.member("job_id", false);
      id != nullptr && (id->type != Type::kString || !id->string.empty())) {
    invalid.add({"body", "job_id"}, "must be empty: the server chooses it", "assertion_error");
  }
  info.pp_degree = body.integer("pp_degree", 1);
  info.dp_degree = body.integer("dp_degree", 1);
  info.tp_degree = body.integer("tp_degree", 1);
  const int world = body.integer("world_size", 1);
  if (const JsonValue* metadata = body.member("job_metadata", false);
      metadata != nullptr && metadata->type != Type::kNull) {
    const bool is_name =
        metadata->type == Type::kString && !trim(metadata->string).starts_with('{');
    if (is_name && metadata->string.size() > kLongestName) {
      invalid.add({"body", "job_metadata"},
                  "ensure this value has at most " + std::to_string(kLongestName) +
                      " bytes, where it is no JSON object",
                  "value_error.any_str.max_length");
    } else if (metadata->type == Type::kString) {
      info.metadata = metadata->string;
    } else {
      invalid.add({"body", "job_metadata"}, "str type expected", "type_error.str");
    }
  }
  const double product = 1.0 * info.pp_degree * info.dp_degree * info.tp_degree;
  if (invalid.empty() && product != world) {
    invalid.add({"body", "world_size"}, "must be pp_degree * dp_degree * tp_degree",
                "assertion_error");
  }
  if (!invalid.empty()) return invalid.response();
  return info;
}

ZeusRead<ZeusRankInfo> read_zeus_rank(std::string_view text) {
  InvalidRequest invalid;
  Body body(text, invalid);
  ZeusRankInfo info;
  info.rank = body.integer("rank", 0);
  info.dp_rank = body.integer("dp_rank", 0);
  info.pp_rank = body.integer("pp_rank", 0);
  info.tp_rank = body.integer("tp_rank", 0);
  if (const JsonValue* list = body.member("available_frequencies")) {
    const auto is_clock = [](const JsonValue& item) {
      return item.is_integer && item.integer >= 0 && item.integer <= kHighestClock;
    };
    if (list->type != Type::kArray) {
      invalid.add({"body", "available_frequencies"}, "value is not a valid list",
                  "type_error.list");
    }
    for (const JsonValue& item : list->items) {
      if (!is_clock(item)) {
        invalid.add({"body", "available_frequencies"}, "value is not a valid integer of MHz",
                    "type_error.integer");
        break;
      }
      info.frequencies.push_back({static_cast<int>(item.integer)});
    }
  }
  if (!invalid.empty()) return invalid.response();
  return info;
}

ZeusRead<ZeusResult> read_zeus_result(std::string_view text) {
  InvalidRequest invalid;
  Body body(text, invalid);
  ZeusResult result;
  result.rank = body.integer("rank", 0);
  result.iteration_time = body.numbers("iter_time");
  result.iteration_energy = body.numbers("iter_energy");
  result.time = body.breakdown("time_breakdown");
  result.energy = body.breakdown("energy_breakdown");
  if (!invalid.empty()) return invalid.response();
  return result;
}

ZeusRead<int> read_zeus_rank_number(const std::string& query) {
  InvalidRequest invalid;
  const Result<net::HttpQuery> parsed = net::HttpQuery::parse(query, {"rank"});
  if (!parsed.ok()) {
    invalid.add({"query"}, parsed.error().text(), "value_error");
    return invalid.response();
  }
  const auto text = parsed->find("rank");
  if (!text) {
    invalid.add({"query", "rank"}, "field required", "value_error.missing");
    return invalid.response();
  }
  const std::int64_t number = parse_integer(*text).value_or(-1);
  if (number > std::numeric_limits<int>::max() || number < 0) {
    invalid.add({"query", "rank"}, "value is not a valid integer", "type_error.integer");
    return invalid.response();
  }
  return static_cast<int>(number);
}

net::HttpResponse zeus_error(int status, const std::string& detail) {
  return net::json_response(status, {{"detail", detail}});
}

}  // namespace harpe::training
