#include "harpe/training/job/measurements_json.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "harpe/base/json_fields.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

/// Returns one member of each item as a list.
template <class Item, class Member>
Json column(const std::vector<Item>& items, Member Item::* member) {
  Json list = Json::array();
  for (const Item& item : items) {
    if constexpr (std::is_arithmetic_v<Member>) {
      list.push_back(item.*member);
    } else if constexpr (std::is_same_v<Member, Seconds>) {
      list.push_back((item.*member).value);
    } else {
      list.push_back(numbers(item.*member));
    }
  }
  return list;
}

std::vector<double> numbers_in(const JsonValue& list, std::size_t most) {
  std::vector<double> values;
  for (const JsonValue& item : list.items)
    if (item.type == Type::kNumber && values.size() < most) values.push_back(item.number);
  return values;
}

std::vector<double> read_numbers(Fields& fields, std::string_view key) {
  const JsonValue* list = fields.any(key);
  return list == nullptr ? std::vector<double>() : numbers_in(*list, AllMaxBaseline::kNewest);
}

}  // namespace

Json measured_json(const std::vector<std::vector<MeasuredClock>>& measured) {
  Json stages = Json::array();
  for (const auto& list : measured) {
    Json clocks = Json::array();
    for (const MeasuredClock& at : list) {
      clocks.push_back({{"clock_mhz", at.clock.value},
                        {"time_s", numbers(at.time)},
                        {"energy_j", numbers(at.energy)},
                        {"iteration_time_s", at.iteration_time.value}});
    }
    stages.push_back(std::move(clocks));
  }
  return stages;
}

std::vector<std::vector<MeasuredClock>> read_measured(const JsonValue* value,
                                                      Diagnostics& diagnostics,
                                                      const plan::ScheduleWork& work) {
  std::vector<std::vector<MeasuredClock>> measured(static_cast<std::size_t>(work.stages()));
  if (value == nullptr) return measured;
  if (value->type != Type::kArray || value->items.size() != measured.size()) {
    diagnostics.add(value->line, value->column, "expected what was measured of each stage");
    return measured;
  }
  for (std::size_t stage = 0; stage < measured.size(); ++stage)
    for (const JsonValue& item : value->items[stage].items) {
      Fields fields(item, "a measured clock", diagnostics);
      const std::size_t items = work.stage(static_cast<int>(stage)).size();
      MeasuredClock at;
      at.clock.value = static_cast<int>(fields.integer("clock_mhz", 1, kHighestClock).value_or(1));
      at.time = units<Seconds>(read_list(fields, "time_s", items));
      at.energy = units<Joules>(read_list(fields, "energy_j", items));
      at.iteration_time.value = fields.number("iteration_time_s", 0, kLongestTime).value_or(0);
      measured[stage].push_back(std::move(at));
    }
  return measured;
}

Json kept_json(const Profiler::Kept& kept) {
  const Profiler::Account& account = kept.account;
  Json ended = Json::array();
  for (const bool one : kept.ended) ended.push_back(one ? 1 : 0);
  return {{"measured", measured_json(kept.measured)},
          {"ended", std::move(ended)},
          {"extra_s", account.extra},
          {"base_s", account.base},
          {"full_time_s", account.full_time},
          {"wait_time_s", numbers(account.wait_time)},
          {"wait_energy_j", numbers(account.wait_energy)},
          {"wait_weight", numbers(account.wait_weight)}};
}

Profiler::Kept read_kept(const JsonValue& object, Diagnostics& diagnostics,
                         const plan::ScheduleWork& work) {
  Fields fields(object, "profiler", diagnostics);
  const auto stages = static_cast<std::size_t>(work.stages());
  Profiler::Kept kept;
  kept.measured = read_measured(fields.any("measured"), diagnostics, work);
  kept.account.extra = fields.number("extra_s", -kLongestTime, kLongestTime).value_or(0);
  kept.account.base = fields.number("base_s", 0, kLongestTime).value_or(0);
  kept.account.full_time = fields.number("full_time_s", 0, kLongestTime).value_or(0);
  kept.account.wait_time = read_list(fields, "wait_time_s", stages);
  kept.account.wait_energy = read_list(fields, "wait_energy_j", stages);
  kept.account.wait_weight = read_list(fields, "wait_weight", stages);
  for (const double one : read_list(fields, "ended", stages)) kept.ended.push_back(one != 0);
  return kept;
}

Json baseline_json(const AllMaxBaseline& baseline) {
  using Time = AllMaxBaseline::Time;
  using StageEnergy = AllMaxBaseline::StageEnergy;
  const AllMaxBaseline::Kept kept = baseline.kept();
  Json stages = Json::array();
  for (const std::vector<StageEnergy>& stage : kept.energy) {
    stages.push_back({{"energy_j", column(stage, &StageEnergy::energy)},
                      {"time_s", column(stage, &StageEnergy::time)},
                      {"computing_s", column(stage, &StageEnergy::computing)}});
  }
  return {{"time_s", column(kept.times, &Time::time)},
          {"explained_s", column(kept.times, &Time::explained)},
          {"computing_s", column(kept.times, &Time::computing)},
          {"stages", std::move(stages)},
          {"not_taken", kept.not_taken}};
}

void read_baseline(const JsonValue& object, Diagnostics& diagnostics, std::size_t stages,
                   AllMaxBaseline& baseline) {
  Fields fields(object, "the baseline", diagnostics);
  AllMaxBaseline::Kept kept;
  const std::vector<double> times = read_numbers(fields, "time_s");
  const std::vector<double> explained = read_numbers(fields, "explained_s");
  const JsonValue* computing = fields.any("computing_s");
  for (std::size_t i = 0; i < std::min(times.size(), explained.size()); ++i) {
    AllMaxBaseline::Time& one =
        kept.times.emplace_back(Seconds{times[i]}, Seconds{explained[i]}, std::vector<Seconds>());
    if (computing == nullptr || i >= computing->items.size()) continue;
    constexpr std::size_t kMostPipelines = 16;
    one.computing = units<Seconds>(numbers_in(computing->items[i], kMostPipelines * stages));
    if (one.computing.size() % stages != 0) one.computing.clear();
  }
  for (const JsonValue* item : fields.objects("stages")) {
    Fields stage(*item, "a stage of the baseline", diagnostics);
    const std::vector<double> energies = read_numbers(stage, "energy_j");
    const std::vector<double> of_time = read_numbers(stage, "time_s");
    const std::vector<double> of_computing = read_numbers(stage, "computing_s");
    std::vector<AllMaxBaseline::StageEnergy>& mine = kept.energy.emplace_back();
    for (std::size_t i = 0; i < std::min({energies.size(), of_time.size(), of_computing.size()});
         ++i) {
      mine.push_back({energies[i], Seconds{of_time[i]}, Seconds{of_computing[i]}});
    }
  }
  kept.energy.resize(stages);
  kept.not_taken =
      static_cast<std::size_t>(fields.integer("not_taken", 0, AllMaxBaseline::kNewest).value_or(0));
  baseline.restore(kept);
}

Json savings_json(const Savings& savings) {
  const Savings::Kept kept = savings.kept();
  Json json = {{"saved_j", kept.saved},
               {"bias_j", kept.bias},
               {"variance_j2", kept.variance},
               {"since_look_j", kept.since},
               {"since_look_bias_j", kept.since_bias},
               {"since_look_variance_j2", kept.since_variance},
               {"since_look_moved_j", kept.since_moved},
               {"since_look_doubted_j", kept.since_doubted},
               {"since_look_iterations", kept.iterations},
               {"look_level_j", kept.look_level},
               {"at_all_max_j", kept.at_all_max},
               {"level_error_j", kept.level_error},
               {"drift_j2", kept.drift},
               {"noise_by_plan_j", kept.noise_by_plan},
               {"noise_at_all_max_j", kept.noise_at_all_max},
               {"is_confirmed", kept.is_confirmed}};
  if (kept.level) json["level_j"] = *kept.level;
  if (kept.expected_share) json["unexplained_share"] = *kept.expected_share;
  return json;
}

void read_savings(Fields& fields, Diagnostics& diagnostics, Savings& savings) {
  constexpr double kMost = 1e30, kMostSquared = kMost * kMost;
  Savings::Kept kept;
  const JsonValue* object = fields.object("savings");
  if (object == nullptr) {
    kept.saved = fields.number("saved_j", -kMost, kMost).value_or(0);
    kept.bias = fields.number("saved_bias_j", 0, kMost).value_or(0);
    kept.variance = fields.number("saved_variance_j2", 0, kMostSquared).value_or(0);
    return savings.restore(kept);
  }
  Fields members(*object, "the savings", diagnostics);
  const auto read = [&](const char* name, double least, double most) {
    return members.number(name, least, most).value_or(0);
  };
  kept.saved = read("saved_j", -kMost, kMost);
  kept.bias = read("bias_j", 0, kMost);
  kept.variance = read("variance_j2", 0, kMostSquared);
  kept.since = read("since_look_j", -kMost, kMost);
  kept.since_bias = read("since_look_bias_j", 0, kMost);
  kept.since_variance = read("since_look_variance_j2", 0, kMostSquared);
  kept.since_moved = read("since_look_moved_j", -kMost, kMost);
  kept.since_doubted = read("since_look_doubted_j", -kMost, kMost);
  kept.look_level = read("look_level_j", -kMost, kMost);
  kept.at_all_max = read("at_all_max_j", -kMost, kMost);
  kept.iterations = read("since_look_iterations", 0, kMost);
  kept.level = members.number("level_j", -kMost, kMost);
  kept.level_error = read("level_error_j", 0, kMost);
  kept.drift = read("drift_j2", 0, kMostSquared);
  kept.noise_by_plan = read("noise_by_plan_j", 0, kMost);
  kept.noise_at_all_max = read("noise_at_all_max_j", 0, kMost);
  kept.is_confirmed = members.boolean("is_confirmed").value_or(false);
  kept.expected_share = members.number("unexplained_share", -kMost, kMost);
  savings.restore(kept);
}

Json observation_json(const Observation& observation, const EstimatedSaving& estimate) {
  const Observation::Means& means = observation.means();
  Json json = {{"iterations", means.iterations},
               {"measured", means.measured},
               {"iteration_time_s", means.iteration_time},
               {"time_s", numbers(means.item_time)},
               {"energy_j", numbers(means.item_energy)},
               {"stage_energy_j", numbers(means.stage_energy)},
               {"clocked", means.clocked},
               {"stage_clock_mhz", numbers(means.stage_clock)},
               {"estimated_by", estimate.basis}};
  if (estimate.least) json["least_saving"] = *estimate.least;
  if (estimate.most) json["most_saving"] = *estimate.most;
  return json;
}

void read_observation(const JsonValue& object, Diagnostics& diagnostics, Observation& observation,
                      EstimatedSaving& estimate) {
  constexpr std::int64_t kMostIterations = 9'000'000'000'000'000;
  Fields fields(object, "the observation", diagnostics);
  Observation::Means means = observation.means();
  means.iterations = fields.integer("iterations", 0, kMostIterations).value_or(0);
  means.measured = fields.integer("measured", 0, kMostIterations).value_or(0);
  means.iteration_time = fields.number("iteration_time_s", 0, kLongestTime).value_or(0);
  means.item_time = read_list(fields, "time_s", means.item_time.size());
  means.item_energy = read_list(fields, "energy_j", means.item_energy.size());
  means.stage_energy = read_list(fields, "stage_energy_j", means.stage_energy.size());
  means.clocked = fields.integer("clocked", 0, kMostIterations).value_or(0);
  means.stage_clock = read_list(fields, "stage_clock_mhz", means.stage_clock.size());
  estimate.basis = fields.text("estimated_by").value_or("");
  estimate.least = fields.number("least_saving", 0, 1);
  estimate.most = fields.number("most_saving", 0, 1);
  observation.restore(std::move(means));
}

}  // namespace harpe::training
