#include <cmath>
#include <utility>

#include "harpe/job/json_fields.h"
#include "harpe/job/plan_table.h"

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr const char* kFormat = "harpe.plan_table/1";
constexpr std::size_t kMostInList = 4'000'000;

template <class Unit>
Json numbers_json(const std::vector<Unit>& values) {
  Json list = Json::array();
  for (const Unit value : values) list.push_back(value.value);
  return list;
}

Json plan_json(const TablePlan& plan) {
  Json clocks = Json::array();
  for (const auto& stage : plan.clocks) clocks.push_back(clocks_json(stage));
  return {{"time_s", plan.time.value},
          {"energy_j", plan.energy.value},
          {"compute_time_s", numbers_json(plan.compute_time)},
          {"compute_energy_j", numbers_json(plan.compute_energy)},
          {"clocks_mhz", std::move(clocks)}};
}

template <class Unit>
std::vector<Unit> read_numbers(Fields& fields, std::string_view key, double highest) {
  std::vector<Unit> values;
  const JsonValue* list = fields.any(key);
  if (list == nullptr || list->type != Type::kArray || list->items.size() > kMostInList) {
    fields.fault(key, "expected a list of numbers");
    return values;
  }
  for (const JsonValue& item : list->items) {
    if (item.type != Type::kNumber || std::abs(item.number) > highest) {
      fields.fault(key, "expected numbers of at most 1e18");
      return {};
    }
    values.push_back({item.number});
  }
  return values;
}

TablePlan read_plan(const JsonValue& object, Faults& faults) {
  Fields fields(object, "a plan", faults);
  TablePlan plan;
  plan.time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  plan.energy.value =
      needed(fields, "energy_j", fields.number("energy_j", -kMostEnergy, kMostEnergy));
  plan.compute_time = read_numbers<Seconds>(fields, "compute_time_s", kLongestTime);
  plan.compute_energy = read_numbers<Joules>(fields, "compute_energy_j", kMostEnergy);
  const JsonValue* stages = fields.any("clocks_mhz");
  if (stages == nullptr || stages->type != Type::kArray) {
    fields.fault("clocks_mhz", "expected a list of clocks for each stage");
  } else {
    for (const JsonValue& stage : stages->items) {
      std::vector<Megahertz>& clocks = plan.clocks.emplace_back();
      for (const JsonValue& item : stage.items) {
        if (!item.is_integer || item.integer < 0 || item.integer > kHighestClock) {
          fields.fault("clocks_mhz", "a clock is a whole number of MHz from 0 to 100000");
          break;
        }
        clocks.push_back({static_cast<int>(item.integer)});
      }
    }
  }
  fields.finish();
  return plan;
}

/// Whether two plans are for the same lists of instructions.
bool same_lists(const TablePlan& a, const TablePlan& b) {
  if (a.clocks.size() != b.clocks.size() || a.compute_time.size() != a.clocks.size() ||
      a.compute_energy.size() != a.clocks.size()) {
    return false;
  }
  for (std::size_t stage = 0; stage < a.clocks.size(); ++stage)
    if (a.clocks[stage].size() != b.clocks[stage].size()) return false;
  return true;
}

}  // namespace

std::string PlanTable::json() const {
  Json plans = Json::array();
  for (const TablePlan& plan : plans_) plans.push_back(plan_json(plan));
  return json_line({{"format", kFormat},
                    {"waiting_power_w", waiting_power_.value},
                    {"all_max", plan_json(all_max_)},
                    {"plans", std::move(plans)}});
}

Result<PlanTable> PlanTable::parse(std::string_view text, const std::string& file) {
  Result<JsonValue> document = parse_json(text, file);
  if (!document) return std::move(document).error();
  Faults faults(file);
  Fields fields(*document, "the plan table", faults);
  PlanTable table;
  if (fields.text("format") != kFormat) {
    fields.fault("format", std::string("expected '") + kFormat + "'");
  }
  table.waiting_power_.value =
      needed(fields, "waiting_power_w", fields.number("waiting_power_w", 0, kMostPower));
  if (const JsonValue* all_max = fields.object("all_max")) {
    table.all_max_ = read_plan(*all_max, faults);
  } else {
    fields.fault("all_max", "expected a plan");
  }
  for (const JsonValue* plan : fields.objects("plans")) {
    TablePlan one = read_plan(*plan, faults);
    if (!same_lists(one, table.all_max_)) {
      faults.add(plan->line, plan->column, "has other lists than \"all_max\"");
    } else if (!table.plans_.empty() && one.time <= table.plans_.back().time) {
      faults.add(plan->line, plan->column, "plans come in rising order of time");
    }
    table.plans_.push_back(std::move(one));
  }
  if (table.plans_.empty()) fields.fault("plans", "expected at least one plan");
  if (!same_lists(table.all_max_, table.all_max_)) {
    fields.fault("all_max", "expected times, energies and clocks for the same stages");
  }
  fields.finish();
  if (!faults.empty()) return Error::invalid(std::move(faults));
  table.index();
  return table;
}

}  // namespace harpe
