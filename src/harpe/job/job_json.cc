#include "harpe/job/job_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/job/json_fields.h"

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr int kMostDegree = kMaxRanks;
constexpr std::size_t kMostClocks = 4096;
constexpr std::size_t kMostKinds = 4096;
constexpr std::size_t kLongestText = 256;
constexpr double kLongestWish = 1e6;                   // s, and a factor
constexpr std::int64_t kMost = 9'000'000'000'000'000;  // of what is counted

std::string short_text(Fields& fields, std::string_view key) {
  std::string text = fields.text(key).value_or("");
  if (text.size() > kLongestText) {
    fields.fault(key, "is longer than " + std::to_string(kLongestText) + " bytes");
  }
  return text;
}

template <class Number>
void read_count(Fields& fields, std::string_view key, int lowest, int highest, Number& value) {
  if (const auto given = fields.integer(key, lowest, highest)) value = static_cast<int>(*given);
}

void read_number(Fields& fields, std::string_view key, double lowest, double highest,
                 double& value) {
  if (const auto given = fields.number(key, lowest, highest)) value = *given;
}

ProfilingOptions read_profiling(const JsonValue& object, Faults& faults, Unknown unknown) {
  Fields fields(object, "profiling", faults);
  ProfilingOptions options;
  read_number(fields, "slowdown_limit", 0, 1000, options.slowdown_limit);
  read_count(fields, "warm_up", 0, 1000, options.warm_up);
  read_count(fields, "iterations_per_clock", 2, 1000, options.iterations_per_clock);
  read_count(fields, "most_iterations_per_clock", 2, 100'000, options.most_iterations_per_clock);
  read_count(fields, "most_clocks", 2, 4096, options.most_clocks);
  read_count(fields, "lowest_clock_mhz", 0, kHighestClock, options.lowest_clock.value);
  read_count(fields, "rises", 1, 4096, options.rises);
  read_number(fields, "time_target", 0, 10, options.time_target);
  read_number(fields, "energy_target", 0, 10, options.energy_target);
  if (unknown == Unknown::kFault) fields.finish();
  return options;
}

Json profiling_json(const ProfilingOptions& options) {
  return {{"slowdown_limit", options.slowdown_limit},
          {"warm_up", options.warm_up},
          {"iterations_per_clock", options.iterations_per_clock},
          {"most_iterations_per_clock", options.most_iterations_per_clock},
          {"most_clocks", options.most_clocks},
          {"lowest_clock_mhz", options.lowest_clock.value},
          {"rises", options.rises},
          {"time_target", options.time_target},
          {"energy_target", options.energy_target}};
}

/// Exactly one of the four.
Wish wish_in(Fields& fields) {
  // Those that are there count, also where their value is refused.
  std::vector<Wish> given;
  const auto number = [&](const char* name, Wish::Kind kind, double low, double high) {
    if (fields.any(name) == nullptr) return;
    given.push_back({kind, fields.number(name, low, high).value_or(0)});
  };
  number("slowdown", Wish::Kind::kSlowdown, 0, kLongestWish);
  number("deadline_s", Wish::Kind::kDeadline, 1e-6, kLongestWish);
  number("power_cap_w", Wish::Kind::kPowerCap, 1e-3, kMostPower);
  if (fields.any("least_energy") != nullptr && fields.boolean("least_energy").value_or(true)) {
    given.push_back({Wish::Kind::kLeastEnergy, 0});
  }
  if (given.size() == 1) return given.front();
  fields.fault("slowdown",
               "expected exactly one of \"slowdown\", \"deadline_s\", \"power_cap_w\", "
               "\"least_energy\": true");
  return {};
}

std::vector<Seconds> read_times(Fields& fields, std::string_view key) {
  std::vector<Seconds> times;
  const JsonValue* list = fields.any(key);
  if (list == nullptr) return times;
  const auto is_time = [](const JsonValue& item) {
    return item.type == Type::kNumber && item.number >= 0 && item.number <= kLongestTime;
  };
  if (list->type != Type::kArray || !std::ranges::all_of(list->items, is_time)) {
    fields.fault(key, "expected a list of seconds");
    return times;
  }
  for (const JsonValue& item : list->items) times.push_back({item.number});
  return times;
}

Transfers read_transfers(const JsonValue& object, Faults& faults, Unknown unknown) {
  Fields fields(object, "transfers", faults);
  Transfers transfers;
  const auto mode = fields.word("mode", {"overlapped", "rendezvous"});
  if (mode == 1) transfers.mode = Transfers::Mode::kRendezvous;
  transfers.forward = read_times(fields, "forward_s");
  transfers.backward = read_times(fields, "backward_s");
  if (unknown == Unknown::kFault) fields.finish();
  return transfers;
}

Json transfers_json(const Transfers& transfers) {
  const auto list = [](const std::vector<Seconds>& times) {
    Json numbers = Json::array();
    for (const Seconds time : times) numbers.push_back(time.value);
    return numbers;
  };
  const bool rendezvous = transfers.mode == Transfers::Mode::kRendezvous;
  return {{"mode", rendezvous ? "rendezvous" : "overlapped"},
          {"forward_s", list(transfers.forward)},
          {"backward_s", list(transfers.backward)}};
}

/// By the name of a generator with its sizes, or in full.
void read_schedule(Fields& fields, Faults& faults, JobSpec& spec) {
  const JsonValue* given = fields.any("schedule");
  const auto micro_batches = fields.integer("micro_batches", 1, kMaxInstructions);
  const auto chunks = fields.integer("chunks", 1, kMaxInstructions);
  if (given == nullptr) {
    return fields.fault("schedule", "is missing: the name of one, such as \"1f1b\", or its lists");
  }
  const auto add_all = [&](const Error& error) {
    for (const Fault& fault : error.faults)
      faults.add(fault.line > 0 ? fault.line : given->line,
                 fault.line > 0 ? fault.column : given->column, fault.message);
  };
  if (given->type != Type::kString) {
    Result<Schedule> schedule = read_schedule_json(*given, "schedule");
    if (!schedule) return add_all(schedule.error());
    spec.schedule = std::move(*schedule);
    return;
  }
  if (!micro_batches) {
    if (fields.any("micro_batches") == nullptr) fields.fault("micro_batches", "is missing");
    return;
  }
  ScheduleOptions options{.stages = spec.shape.stages,
                          .micro_batches = static_cast<int>(*micro_batches)};
  if (chunks) options.chunks = static_cast<int>(*chunks);
  // Before any of them is made.
  const std::int64_t asked = most_instructions(given->string, options);
  if (asked > kMaxJobInstructions) {
    return fields.fault("micro_batches",
                        "with so many stages and micro-batches an iteration has " +
                            std::to_string(asked) + " instructions, more than the " +
                            std::to_string(kMaxJobInstructions) + " that a job may have");
  }
  Result<Schedule> schedule = make_schedule(given->string, options);
  if (!schedule) return add_all(schedule.error());
  spec.schedule = std::move(*schedule);
}

/// A schedule that a generator makes as its name, and with what; any other in full.
void put_schedule(const Schedule& schedule, Json& json) {
  const auto& all = schedule_generators();
  const auto generator = std::ranges::find(all, schedule.name, &ScheduleGenerator::name);
  const ScheduleOptions options{.stages = schedule.stages,
                                .micro_batches = schedule.micro_batches,
                                .chunks = schedule.chunks()};
  if (generator != all.end() &&
      most_instructions(schedule.name, options) <= 2 * kMaxJobInstructions) {
    const Result<Schedule> made = generator->make(options);
    if (made && made->placement == schedule.placement && made->copies == schedule.copies &&
        made->lists == schedule.lists) {
      json["schedule"] = schedule.name;
      json["micro_batches"] = schedule.micro_batches;
      if (generator->uses_chunks) json["chunks"] = options.chunks;
      return;
    }
  }
  json["schedule"] = Json::parse(schedule_json(schedule));
}

void read_spec(Fields& fields, Faults& faults, Unknown unknown, JobSpec& spec) {
  spec.name = short_text(fields, "name");
  read_count(fields, "data", 1, kMostDegree, spec.shape.data);
  read_count(fields, "stages", 1, kMostDegree, spec.shape.stages);
  read_count(fields, "tensor", 1, kMostDegree, spec.shape.tensor);
  read_schedule(fields, faults, spec);
  if (const JsonValue* transfers = fields.object("transfers"))
    spec.transfers = read_transfers(*transfers, faults, unknown);
  if (const auto watts = fields.number("blocking_power_w", 0, kMostPower))
    spec.blocking_power = Watts{*watts};
  read_number(fields, "switch_latency_s", 0, 60, spec.switch_latency.value);
  read_number(fields, "min_dwell_s", 0, 60, spec.min_dwell.value);
  read_count(fields, "plans", 1, kMaxPlans, spec.plans);
  if (const JsonValue* profiling = fields.object("profiling"))
    spec.profiling = read_profiling(*profiling, faults, unknown);
  if (const JsonValue* wish = fields.object("wish")) {
    Fields wished(*wish, "wish", faults);
    spec.wish = wish_in(wished);
    if (unknown == Unknown::kFault) wished.finish();
  }
  if (const auto csv = fields.text("profile")) {
    if (csv->size() > kLongestProfile) {
      return fields.fault("profile", "is longer than the " + std::to_string(kLongestProfile) +
                                         " bytes that it may have");
    }
    Result<Profile> profile = parse_profile(*csv, "profile");
    if (profile) {
      spec.profile = std::move(*profile);
    } else {
      fields.fault("profile", profile.error().text());
    }
  }
}

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
  orders.version =
      static_cast<std::uint64_t>(needed(fields, "version", fields.integer("version", 0, kMost)));
  orders.from_iteration =
      needed(fields, "from_iteration", fields.integer("from_iteration", 0, kMost));
  if (const auto purpose = fields.word("purpose", {"full_speed", "profile", "plan"}))
    orders.purpose = static_cast<StageOrders::Purpose>(*purpose);
  orders.clocks = read_clocks(fields, "clocks_mhz", kMaxInstructions);
  if (orders.clocks.empty()) fields.fault("clocks_mhz", "expected at least one clock");
  fields.finish();
  return orders;
}

}  // namespace

const char* name_of(StageOrders::Purpose purpose) {
  switch (purpose) {
    case StageOrders::Purpose::kFullSpeed:
      return "full_speed";
    case StageOrders::Purpose::kProfile:
      return "profile";
    case StageOrders::Purpose::kPlan:
      return "plan";
  }
  return "";
}

Result<JobSpec> read_job_spec(const JsonValue& object, const std::string& file, Unknown unknown) {
  JobSpec spec;
  Status read = read_object(object, "the job", file, unknown, [&](Fields& fields, Faults& faults) {
    read_spec(fields, faults, unknown, spec);
  });
  if (!read) return std::move(read).error();
  if (Status valid = validate(spec); !valid) return std::move(valid).error();
  return spec;
}

Result<JobSpec> parse_job_spec(std::string_view text, Unknown unknown) {
  const Result<JsonValue> document = parse_json(text, "the job");
  if (!document) return document.error();
  return read_job_spec(*document, "the job", unknown);
}

std::int64_t declared_instructions(std::string_view text) {
  const Result<JsonValue> document = parse_json(text, "the job");
  if (!document || document->type != Type::kObject) return 0;
  const JsonValue* schedule = document->find("schedule");
  if (schedule == nullptr || schedule->type != Type::kString) return 0;
  const auto size_of = [&](std::string_view key, int usual) {
    const JsonValue* value = document->find(key);
    if (value == nullptr || !value->is_integer) return usual;
    return static_cast<int>(std::clamp<std::int64_t>(value->integer, 0, kMaxInstructions));
  };
  return most_instructions(schedule->string, {.stages = size_of("stages", 1),
                                              .micro_batches = size_of("micro_batches", 0),
                                              .chunks = size_of("chunks", 2)});
}

std::string job_spec_json(const JobSpec& spec) {
  Json json = {{"name", spec.name},
               {"data", spec.shape.data},
               {"stages", spec.shape.stages},
               {"tensor", spec.shape.tensor}};
  put_schedule(spec.schedule, json);
  json.update({{"plans", spec.plans},
               {"switch_latency_s", spec.switch_latency.value},
               {"min_dwell_s", spec.min_dwell.value},
               {"profiling", profiling_json(spec.profiling)},
               {"wish", Json::parse(wish_json(spec.wish))}});
  if (!spec.transfers.none()) json["transfers"] = transfers_json(spec.transfers);
  if (spec.blocking_power) json["blocking_power_w"] = spec.blocking_power->value;
  if (spec.profile) json["profile"] = profile_csv(*spec.profile);
  return json_line(json);
}

Result<Wish> read_wish(const JsonValue& object, const std::string& file, Unknown unknown) {
  Wish wish;
  Status read = read_object(object, "the wish", file, unknown,
                            [&](Fields& fields, Faults&) { wish = wish_in(fields); });
  if (!read) return std::move(read).error();
  return wish;
}

Result<Wish> parse_wish(std::string_view text) {
  const Result<JsonValue> document = parse_json(text, "the wish");
  if (!document) return document.error();
  return read_wish(*document, "the wish");
}

std::string wish_json(const Wish& wish) {
  switch (wish.kind) {
    case Wish::Kind::kSlowdown:
      return json_line({{"slowdown", wish.value}});
    case Wish::Kind::kDeadline:
      return json_line({{"deadline_s", wish.value}});
    case Wish::Kind::kPowerCap:
      return json_line({{"power_cap_w", wish.value}});
    case Wish::Kind::kLeastEnergy:
      break;
  }
  return json_line({{"least_energy", true}});
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
        rank.start = static_cast<std::uint64_t>(fields.integer("start", 0, kMost).value_or(0));
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
        report.epoch = static_cast<std::uint64_t>(fields.integer("epoch", 0, kMost).value_or(0));
        report.iteration = needed(fields, "iteration", fields.integer("iteration", 0, kMost));
        report.version =
            static_cast<std::uint64_t>(fields.integer("version", 0, kMost).value_or(0));
        report.known = static_cast<std::uint64_t>(
            fields.integer("known", 0, kMost).value_or(static_cast<std::int64_t>(report.version)));
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
  Result<JsonValue> document = parse_json(text, "the answer");
  if (!document) return std::move(document).error();
  Faults faults("the answer");
  RankAnswer answer;
  const bool is_object = document->type == Type::kObject;
  const auto member = [&](const char* name) { return is_object ? document->find(name) : nullptr; };
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
    if (!value->is_integer || value->integer < 0 || value->integer > kMost) {
      faults.add(value->line, value->column, std::string(name) + ": expected a count");
      return std::uint64_t{0};
    }
    return static_cast<std::uint64_t>(value->integer);
  };
  answer.incarnation = text_of("incarnation");
  answer.epoch = count_of("epoch");
  answer.start = count_of("start");
  answer.specification = text_of("specification");
  const JsonValue* list = is_object ? document->find("orders") : &*document;
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
