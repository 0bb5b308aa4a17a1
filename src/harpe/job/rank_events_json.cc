// What a job is told while it trains, and what its ranks are told, as JSON both ways.

#include <cstdint>
#include <optional>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/job/job_json.h"

namespace harpe {
namespace {

/// "data", "stage", "tensor", 0 where they are absent.
Place read_place(Fields& fields) {
  constexpr int kHighestRank = 1'000'000;
  Place place;
  place.data = static_cast<int>(fields.integer("data", 0, kHighestRank).value_or(0));
  place.stage = static_cast<int>(fields.integer("stage", 0, kHighestRank).value_or(0));
  place.tensor = static_cast<int>(fields.integer("tensor", 0, kHighestRank).value_or(0));
  return place;
}

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr std::size_t kMostClocks = 4096;
constexpr std::size_t kMostKinds = 4096;
constexpr std::int64_t kHighestRank = 9'000'000'000'000'000;  // of what is counted

InstructionTotals read_totals(const JsonValue& object, Faults& faults) {
  Fields fields(object, "an instruction", faults);
  InstructionTotals totals;
  const std::string kind_name = needed(fields, "name", fields.text("name"));
  const auto kind = instruction_kind(kind_name);
  if (kind) {
    totals.kind = *kind;
  } else if (fields.any("name") != nullptr) {
    fields.fault("name", "no instruction is called '" + kind_name.substr(0, 40) + "'");
  }
  read_count(fields, "chunk", 0, kMaxInstructions, totals.chunk);
  totals.count =
      static_cast<int>(needed(fields, "count", fields.integer("count", 1, kMaxInstructions)));
  totals.time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  totals.energy.value = number_or_null(fields, "energy_j", -kMostEnergy, kMostEnergy);
  read_number(fields, "energy_error_j", 0, kMostEnergy, totals.energy_error.value);
  fields.finish();
  return totals;
}

StageOrders read_stage_orders(const JsonValue& object, Faults& faults) {
  Fields fields(object, "orders", faults);
  StageOrders orders;
  orders.version = static_cast<std::uint64_t>(
      needed(fields, "version", fields.integer("version", 0, kHighestRank)));
  orders.from_iteration =
      needed(fields, "from_iteration", fields.integer("from_iteration", 0, kHighestRank));
  if (const auto purpose = fields.word("purpose", {"all_max", "profile", "plan"}))
    orders.purpose = static_cast<StageOrders::Purpose>(*purpose);
  orders.clocks = read_clocks(fields, "clocks_mhz", kMaxInstructions);
  if (orders.clocks.empty()) fields.fault("clocks_mhz", "expected at least one clock");
  fields.finish();
  return orders;
}

}  // namespace

const char* name_of(StageOrders::Purpose purpose) {
  switch (purpose) {
    case StageOrders::Purpose::kAllMax:
      return "all_max";
    case StageOrders::Purpose::kProfile:
      return "profile";
    case StageOrders::Purpose::kPlan:
      return "plan";
  }
  return "";
}

Result<RankRegistration> parse_rank_registration(std::string_view text) {
  return read_document<RankRegistration>(
      text, "the rank", [](Fields& fields, Faults&, RankRegistration& rank) {
        rank.place = read_place(fields);
        rank.session = short_text(fields, "session");
        if (rank.session.empty()) {
          fields.fault("session", "expected some text that only this process uses");
        }
        rank.run = short_text(fields, "run");
        rank.gpu = short_text(fields, "gpu");
        rank.clocks = read_clocks(fields, "clocks_mhz", kMostClocks, 1);
        rank.simulated = fields.boolean("simulated").value_or(false);
        rank.specification = short_text(fields, "specification");
        rank.incarnation = short_text(fields, "incarnation");
        rank.start =
            static_cast<std::uint64_t>(fields.integer("start", 0, kHighestRank).value_or(0));
        rank.take_over = fields.boolean("take_over").value_or(false);
      });
}

std::string rank_registration_json(const RankRegistration& rank) {
  Json json = {{"data", rank.place.data},
               {"stage", rank.place.stage},
               {"tensor", rank.place.tensor},
               {"session", rank.session},
               {"run", rank.run},
               {"gpu", rank.gpu},
               {"clocks_mhz", clocks_json(rank.clocks)}};
  if (rank.simulated) json["simulated"] = true;
  if (!rank.specification.empty()) json["specification"] = rank.specification;
  if (!rank.incarnation.empty()) json["incarnation"] = rank.incarnation;
  if (rank.start > 0) json["start"] = rank.start;
  if (rank.take_over) json["take_over"] = true;
  return json_line(json);
}

Result<RankEnd> parse_rank_end(std::string_view text) {
  return read_document<RankEnd>(text, "the rank", [](Fields& fields, Faults&, RankEnd& end) {
    end.place = read_place(fields);
    end.session = short_text(fields, "session");
    if (end.session.empty()) fields.fault("session", "expected that of the rank");
  });
}

std::string rank_end_json(const RankEnd& end) {
  return json_line({{"data", end.place.data},
                    {"stage", end.place.stage},
                    {"tensor", end.place.tensor},
                    {"session", end.session}});
}

Result<IterationReport> parse_iteration_report(std::string_view text) {
  return read_document<IterationReport>(
      text, "the report", [](Fields& fields, Faults& faults, IterationReport& report) {
        report.place = read_place(fields);
        report.session = short_text(fields, "session");
        report.incarnation = short_text(fields, "incarnation");
        report.epoch =
            static_cast<std::uint64_t>(fields.integer("epoch", 0, kHighestRank).value_or(0));
        report.iteration =
            needed(fields, "iteration", fields.integer("iteration", 0, kHighestRank));
        report.version =
            static_cast<std::uint64_t>(fields.integer("version", 0, kHighestRank).value_or(0));
        report.known =
            static_cast<std::uint64_t>(fields.integer("known", 0, kHighestRank)
                                           .value_or(static_cast<std::int64_t>(report.version)));
        report.time.value = needed(fields, "time_s", fields.number("time_s", 1e-9, kLongestTime));
        report.energy.value = number_or_null(fields, "energy_j", -kMostEnergy, kMostEnergy);
        read_number(fields, "energy_error_j", 0, kMostEnergy, report.energy_error.value);
        report.throttled = fields.boolean("throttled").value_or(false);
        const auto instructions = fields.objects("instructions");
        if (instructions.size() > kMostKinds) {
          return fields.fault("instructions", "has more than 4096 entries");
        }
        for (const JsonValue* item : instructions)
          report.instructions.push_back(read_totals(*item, faults));
      });
}

std::string iteration_report_json(const IterationReport& report) {
  Json instructions = Json::array();
  for (const InstructionTotals& totals : report.instructions) {
    instructions.push_back({{"name", name(totals.kind)},
                            {"chunk", totals.chunk},
                            {"count", totals.count},
                            {"time_s", totals.time.value},
                            {"energy_j", null_if_nan(totals.energy.value)},
                            {"energy_error_j", totals.energy_error.value}});
  }
  Json json = {{"data", report.place.data},
               {"stage", report.place.stage},
               {"tensor", report.place.tensor},
               {"session", report.session},
               {"iteration", report.iteration},
               {"version", report.version},
               {"known", report.known},
               {"time_s", report.time.value},
               {"energy_j", null_if_nan(report.energy.value)},
               {"energy_error_j", report.energy_error.value},
               {"throttled", report.throttled},
               {"instructions", std::move(instructions)}};
  if (!report.incarnation.empty()) json["incarnation"] = report.incarnation;
  if (report.epoch > 0) json["epoch"] = report.epoch;
  return json_line(json);
}

Result<Straggler> parse_straggler(std::string_view text, int pipeline, Seconds now, Seconds wall) {
  return read_document<Straggler>(
      text, "the straggler", [&](Fields& fields, Faults&, Straggler& straggler) {
        straggler.pipeline = pipeline;
        straggler.factor =
            needed(fields, "factor", fields.number("factor", 1, kMostStragglerFactor));
        const auto until = fields.number("until", 0, 1e11);
        const auto duration = fields.number("for_s", 0, kLongestTime);
        if (until && duration) fields.fault("for_s", "give either \"until\" or \"for_s\"");
        if (until) straggler.until = now + (Seconds{*until} - wall);
        if (duration) straggler.until = now + Seconds{*duration};
      });
}

std::string orders_json(const std::vector<StageOrders>& orders) {
  Json list = Json::array();
  for (const StageOrders& one : orders) {
    list.push_back({{"version", one.version},
                    {"from_iteration", one.from_iteration},
                    {"purpose", name_of(one.purpose)},
                    {"clocks_mhz", clocks_json(one.clocks)}});
  }
  return json_line(list);
}

Result<RankAnswer> parse_rank_answer(std::string_view text) {
  JsonValue document = HARPE_TRY(parse_json(text, "the answer"));
  Faults faults("the answer");
  RankAnswer answer;
  const bool is_object = document.type == Type::kObject;
  const auto member = [&](const char* name) { return is_object ? document.find(name) : nullptr; };
  const auto text_of = [&](const char* name) {
    const JsonValue* value = member(name);
    if (value == nullptr || value->type == Type::kNull) return std::string();
    if (value->type != Type::kString || value->string.size() > kLongestText) {
      faults.add(value->line, value->column, std::string(name) + ": expected a short text");
      return std::string();
    }
    return value->string;
  };
  const auto count_of = [&](const char* name) {
    const JsonValue* value = member(name);
    if (value == nullptr || value->type == Type::kNull) return std::uint64_t{0};
    if (!value->is_integer || value->integer < 0 || value->integer > kHighestRank) {
      faults.add(value->line, value->column, std::string(name) + ": expected a count");
      return std::uint64_t{0};
    }
    return static_cast<std::uint64_t>(value->integer);
  };
  answer.incarnation = text_of("incarnation");
  answer.epoch = count_of("epoch");
  answer.start = count_of("start");
  answer.specification = text_of("specification");
  const JsonValue* list = is_object ? document.find("orders") : &document;
  if (list != nullptr && list->type != Type::kArray) {
    faults.add(list->line, list->column, "expected a list of orders");
  } else if (list != nullptr) {
    for (const JsonValue& item : list->items) {
      answer.orders.push_back(read_stage_orders(item, faults));
      answer.orders.back().epoch = answer.epoch;
    }
  }
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return answer;
}

}  // namespace harpe
