#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/profile/latency_table.h"
#include "harpe/training/wire/carbon_terms.h"
#include "harpe/training/wire/cluster_terms.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr int kMostDegree = kMaxRanks;
constexpr double kLongestSwitch = 60;  // s
constexpr std::size_t kLongestLatencyTable = 64 * 1024;

ProfilingOptions read_profiling(const JsonValue& object, Diagnostics& diagnostics,
                                Unknown unknown) {
  Fields fields(object, "profiling", diagnostics);
  ProfilingOptions options;
  read_number(fields, "slowdown_limit", 0, 1000, options.slowdown_limit);
  read_count(fields, "warm_up", 0, 1000, options.warm_up);
  read_count(fields, "iterations_per_clock", 2, 1000, options.iterations_per_clock);
  read_count(fields, "most_iterations_per_clock", 2, 100'000, options.most_iterations_per_clock);
  read_count(fields, "most_clocks", 2, 4096, options.most_clocks);
  read_count(fields, "lowest_clock_mhz", 0, kHighestClock, options.lowest_clock.value);
  read_count(fields, "max_consecutive_increases", 1, 4096, options.max_consecutive_increases);
  read_number(fields, "time_target", 0, 10, options.time_target);
  read_number(fields, "energy_target", 0, 10, options.energy_target);
  options.as_is = fields.boolean("as_is").value_or(false);
  if (unknown == Unknown::kRefused) fields.finish();
  return options;
}

Json profiling_json(const ProfilingOptions& options) {
  Json json{{"slowdown_limit", options.slowdown_limit},
            {"warm_up", options.warm_up},
            {"iterations_per_clock", options.iterations_per_clock},
            {"most_iterations_per_clock", options.most_iterations_per_clock},
            {"most_clocks", options.most_clocks},
            {"lowest_clock_mhz", options.lowest_clock.value},
            {"max_consecutive_increases", options.max_consecutive_increases},
            {"time_target", options.time_target},
            {"energy_target", options.energy_target}};
  if (options.as_is) json["as_is"] = true;
  return json;
}

/// \param unit  for messages: "seconds"
template <class Quantity>
std::vector<Quantity> read_quantities(Fields& fields, std::string_view key, double most,
                                      const char* unit) {
  std::vector<Quantity> quantities;
  const JsonValue* list = fields.any(key);
  if (list == nullptr) return quantities;
  const auto is_in_range = [most](const JsonValue& item) {
    return item.type == Type::kNumber && item.number >= 0 && item.number <= most;
  };
  if (list->type != Type::kArray || !std::ranges::all_of(list->items, is_in_range)) {
    fields.error(key, std::string("expected a list of ") + unit);
    return quantities;
  }
  for (const JsonValue& item : list->items) quantities.push_back({item.number});
  return quantities;
}

std::vector<Seconds> read_times(Fields& fields, std::string_view key) {
  return read_quantities<Seconds>(fields, key, kLongestTime, "seconds");
}

/// Reads one number for all stages, or one for each; nullopt if none is given.
template <class Quantity>
std::optional<PerStage<Quantity>> read_per_stage(Fields& fields, std::string_view key, double most,
                                                 const char* unit) {
  const JsonValue* given = fields.any(key);
  if (given == nullptr) return std::nullopt;
  if (given->type == Type::kArray) {
    std::vector<Quantity> each = read_quantities<Quantity>(fields, key, most, unit);
    if (each.empty()) return std::nullopt;
    return each;
  }
  const auto one = fields.number(key, 0, most);
  if (!one) return std::nullopt;
  return Quantity{*one};
}

Transfers read_transfers(const JsonValue& object, Diagnostics& diagnostics, Unknown unknown) {
  Fields fields(object, "transfers", diagnostics);
  Transfers transfers;
  const auto mode = fields.word("mode", {"overlapped", "rendezvous"});
  if (mode == 1) transfers.mode = Transfers::Mode::kRendezvous;
  transfers.forward = read_times(fields, "forward_s");
  transfers.backward = read_times(fields, "backward_s");
  if (unknown == Unknown::kRefused) fields.finish();
  return transfers;
}

template <class Quantity>
Json list_json(const std::vector<Quantity>& quantities) {
  Json numbers = Json::array();
  for (const Quantity one : quantities) numbers.push_back(one.value);
  return numbers;
}

Json transfers_json(const Transfers& transfers) {
  const bool rendezvous = transfers.mode == Transfers::Mode::kRendezvous;
  return {{"mode", rendezvous ? "rendezvous" : "overlapped"},
          {"forward_s", list_json(transfers.forward)},
          {"backward_s", list_json(transfers.backward)}};
}

std::vector<Seconds> read_stage_times(Fields& fields, std::string_view key, int stages) {
  const auto times = read_per_stage<Seconds>(fields, key, kLongestTime, "seconds");
  return times ? times->each(stages) : std::vector<Seconds>();
}

/// Reads one time for all clocks, or a CSV table of times by requested clock.
LatencyByClock read_latency(Fields& fields, std::string_view key) {
  const JsonValue* given = fields.any(key);
  if (given == nullptr || given->type != Type::kString) {
    return Seconds{fields.number(key, 0, kLongestSwitch).value_or(0)};
  }
  if (given->string.size() > kLongestLatencyTable) {
    fields.error(key, "is longer than the " + std::to_string(kLongestLatencyTable) +
                          " bytes that it may have");
    return {};
  }
  Result<LatencyByClock> table = plan::parse_latency_table(given->string, std::string(key));
  if (!table.ok()) {
    fields.error(key, table.error().text());
    return {};
  }
  if (table->longest().value > kLongestSwitch) {
    fields.error(key, "has a time above " + shortest(kLongestSwitch) + " s");
    return {};
  }
  return *std::move(table);
}

Json latency_json(const LatencyByClock& latency) {
  if (latency.is_table()) return plan::latency_table_csv(latency);
  return latency.longest().value;
}

/// Reads a schedule: the name of a generator with its sizes, or the lists in full.
void read_schedule(Fields& fields, Diagnostics& diagnostics, Unknown unknown, JobSpec& spec) {
  const JsonValue* given = fields.any("schedule");
  const auto micro_batches = fields.integer("micro_batches", 1, kMaxInstructions);
  const auto chunks = fields.integer("chunks", 1, kMaxInstructions);
  if (given == nullptr) {
    return fields.error("schedule",
                        "is missing: the name of a schedule, such as \"1f1b\", or its lists");
  }
  const auto add_all = [&](const Error& error) {
    for (const Diagnostic& diagnostic : error.diagnostics)
      diagnostics.add(diagnostic.line > 0 ? diagnostic.line : given->line,
                      diagnostic.line > 0 ? diagnostic.column : given->column, diagnostic.message);
  };
  const auto use = [&](Result<Schedule> schedule) {
    if (!schedule.ok()) return add_all(schedule.error());
    spec.schedule = std::move(*schedule);
    // Earlier versions ignored unused chunks, and may have stored them.
    if (!chunks || unknown == Unknown::kIgnored) return;
    if (const auto why = wrong_chunks(*chunks, spec.schedule))
      fields.error("chunks", *why + ": remove \"chunks\"");
  };
  if (given->type != Type::kString) return use(read_schedule_json(*given, "schedule"));
  if (!micro_batches) {
    if (fields.any("micro_batches") == nullptr) fields.error("micro_batches", "is missing");
    return;
  }
  ScheduleOptions options{.stages = spec.shape.stages,
                          .micro_batches = static_cast<int>(*micro_batches)};
  if (chunks) options.chunks = static_cast<int>(*chunks);
  // Checked before any instruction is made.
  const std::int64_t asked = most_instructions(given->string, options);
  if (asked > kMaxJobInstructions) {
    return fields.error("micro_batches",
                        "with this number of stages and micro-batches an iteration has " +
                            std::to_string(asked) + " instructions, more than the " +
                            std::to_string(kMaxJobInstructions) + " that a job may have");
  }
  use(make_schedule(given->string, options));
}

/// Writes a schedule as the name and sizes of the generator that makes it, or else in full.
void put_schedule(const Schedule& schedule, Json& json) {
  const auto& all = schedule_generators();
  const auto generator = std::ranges::find(all, schedule.name, &ScheduleGenerator::name);
  const ScheduleOptions options{.stages = schedule.stages,
                                .micro_batches = schedule.micro_batches,
                                .chunks = schedule.chunks()};
  if (generator != all.end() &&
      most_instructions(schedule.name, options) <= 2 * kMaxJobInstructions) {
    const Result<Schedule> made = generator->make(options);
    if (made.ok() && made->placement == schedule.placement && made->copies == schedule.copies &&
        made->lists == schedule.lists) {
      json["schedule"] = schedule.name;
      json["micro_batches"] = schedule.micro_batches;
      if (generator->uses_chunks) json["chunks"] = options.chunks;
      return;
    }
  }
  json["schedule"] = own_json(schedule_json(schedule));
}

void read_spec(Fields& fields, Diagnostics& diagnostics, Unknown unknown, JobSpec& spec) {
  spec.name = short_text(fields, "name");
  read_count(fields, "data", 1, kMostDegree, spec.shape.data);
  read_count(fields, "stages", 1, kMostDegree, spec.shape.stages);
  read_count(fields, "tensor", 1, kMostDegree, spec.shape.tensor);
  read_schedule(fields, diagnostics, unknown, spec);
  if (const JsonValue* transfers = fields.object("transfers"))
    spec.transfers = read_transfers(*transfers, diagnostics, unknown);
  spec.fixed_times = {.load = read_stage_times(fields, "load_s", spec.shape.stages),
                      .reduce = read_stage_times(fields, "reduce_s", spec.shape.stages),
                      .optimizer = read_stage_times(fields, "optimizer_s", spec.shape.stages)};
  spec.fit = fields.boolean("fit").value_or(false);
  spec.observe = fields.boolean("observe").value_or(false);
  spec.blocking_power = read_per_stage<Watts>(fields, "blocking_power_w", kMostPower, "watts");
  spec.switch_latency = read_latency(fields, "switch_latency_s");
  read_number(fields, "min_dwell_s", 0, 60, spec.min_dwell.value);
  read_count(fields, "plans", 1, kMaxPlans, spec.plans);
  if (const JsonValue* profiling = fields.object("profiling"))
    spec.profiling = read_profiling(*profiling, diagnostics, unknown);
  if (const JsonValue* objective = fields.object("objective")) {
    Fields members(*objective, "objective", diagnostics);
    spec.objective = read_objective(members);
    if (unknown == Unknown::kRefused) members.finish();
  }
  if (const JsonValue* carbon = fields.object("carbon")) {
    Fields members(*carbon, "carbon", diagnostics);
    spec.carbon = carbon_terms_json(read_carbon_terms(members, diagnostics, unknown));
    if (unknown == Unknown::kRefused) members.finish();
  }
  if (const JsonValue* cluster = fields.object("cluster")) {
    Fields members(*cluster, "cluster", diagnostics);
    spec.cluster = read_cluster_terms(members);
    if (unknown == Unknown::kRefused) members.finish();
  }
  if (const auto csv = fields.text("profile")) {
    if (csv->size() > kLongestProfile) {
      return fields.error("profile", "is longer than the " + std::to_string(kLongestProfile) +
                                         " bytes that it may have");
    }
    Result<Profile> profile = parse_profile(*csv, "profile");
    if (profile.ok()) {
      spec.profile = std::move(*profile);
    } else {
      fields.error("profile", profile.error().text());
    }
  }
}

}  // namespace

Result<JobSpec> read_job_spec(const JsonValue& object, const std::string& file, Unknown unknown) {
  JobSpec spec;
  Status read =
      read_object(object, "the job", file, unknown, [&](Fields& fields, Diagnostics& diagnostics) {
        read_spec(fields, diagnostics, unknown, spec);
      });
  if (!read.ok()) return std::move(read).error();
  HARPE_TRY(validate(spec));
  return spec;
}

Result<JobSpec> parse_job_spec(std::string_view text, Unknown unknown) {
  const JsonValue document = HARPE_TRY(parse_json(text, "the job"));
  return read_job_spec(document, "the job", unknown);
}

std::int64_t declared_instructions(std::string_view text) {
  const Result<JsonValue> document = parse_json(text, "the job");
  if (!document.ok() || document->type != Type::kObject) return 0;
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
               {"switch_latency_s", latency_json(spec.switch_latency)},
               {"min_dwell_s", spec.min_dwell.value},
               {"profiling", profiling_json(spec.profiling)},
               {"objective", own_json(objective_json(spec.objective))}});
  if (!spec.transfers.none()) json["transfers"] = transfers_json(spec.transfers);
  for (const auto& [key, times] : {std::pair{"load_s", &spec.fixed_times.load},
                                   {"reduce_s", &spec.fixed_times.reduce},
                                   {"optimizer_s", &spec.fixed_times.optimizer}}) {
    if (!times->empty()) json[key] = list_json(*times);
  }
  if (spec.fit) json["fit"] = true;
  if (spec.observe) json["observe"] = true;
  if (spec.blocking_power) {
    const std::vector<Watts>& values = spec.blocking_power->values;
    json["blocking_power_w"] = values.size() == 1 ? Json(values.front().value) : list_json(values);
  }
  if (!spec.carbon.empty()) json["carbon"] = json_or_discarded(spec.carbon);
  if (!spec.cluster.empty()) json["cluster"] = json_or_discarded(spec.cluster);
  if (spec.profile) json["profile"] = profile_csv(*spec.profile);
  return json_line(json);
}

}  // namespace harpe::training
