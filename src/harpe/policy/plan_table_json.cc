#include <charconv>
#include <cmath>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/policy/plan_table.h"

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr const char* kFormat = "harpe.plan_table/1";
/// Lists are texts here, and clocks that follow each other are counted: a value of JSON takes more
/// than a hundred bytes while it is read.
constexpr const char* kStoredFormat = "harpe.plan_table/2";
constexpr std::size_t kMostInList = 4'000'000;
constexpr std::size_t kMostStored = 2 * kMaxPlanCells;

// --- Writing. Tables have up to ten million clocks, which no tree of values is built for.
// ---------

template <class Unit>
void put_numbers(std::string& text, const std::vector<Unit>& values, char between) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += between;
    text += shortest(values[i].value);
  }
}

void put_integer(std::string& text, std::int64_t value) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void put_clocks(std::string& text, const std::vector<Megahertz>& clocks) {
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    if (i > 0) text += ',';
    put_integer(text, clocks[i].value);
  }
}

/// "1410x12 1200": how often each stands there in a row.
void put_counted_clocks(std::string& text, const std::vector<Megahertz>& clocks) {
  for (std::size_t i = 0; i < clocks.size();) {
    std::size_t end = i;
    while (end < clocks.size() && clocks[end] == clocks[i]) ++end;
    if (i > 0) text += ' ';
    put_integer(text, clocks[i].value);
    if (end - i > 1) {
      text += 'x';
      put_integer(text, static_cast<std::int64_t>(end - i));
    }
    i = end;
  }
}

void put_figures(std::string& text, const TablePlan& plan) {
  text += "{\"time_s\":" + shortest(plan.time.value);
  text += ",\"energy_j\":" + shortest(plan.energy.value);
  if (plan.gap) text += ",\"gap\":" + shortest(*plan.gap);
  if (plan.for_objective) text += ",\"for_objective\":true";
}

void put_plan(std::string& text, const TablePlan& plan) {
  put_figures(text, plan);
  text += ",\"compute_time_s\":[";
  put_numbers(text, plan.compute_time, ',');
  text += "],\"compute_energy_j\":[";
  put_numbers(text, plan.compute_energy, ',');
  text += "],\"clocks_mhz\":[";
  for (std::size_t stage = 0; stage < plan.clocks.size(); ++stage) {
    text += stage == 0 ? "[" : ",[";
    put_clocks(text, plan.clocks[stage]);
    text += ']';
  }
  text += "]}";
}

void put_stored_plan(std::string& text, const TablePlan& plan) {
  put_figures(text, plan);
  text += ",\"compute_time_s\":\"";
  put_numbers(text, plan.compute_time, ' ');
  text += "\",\"compute_energy_j\":\"";
  put_numbers(text, plan.compute_energy, ' ');
  text += "\",\"clocks_mhz\":\"";
  for (std::size_t stage = 0; stage < plan.clocks.size(); ++stage) {
    if (stage > 0) text += ';';
    put_counted_clocks(text, plan.clocks[stage]);
  }
  text += "\"}";
}

template <class PutPlan>
std::string table_text(const PlanTable& table, const char* format, PutPlan put) {
  std::string text = std::string("{\"format\":\"") + format +
                     "\",\"waiting_power_w\":" + shortest(table.waiting_power().value);
  if (table.objective()) text += ",\"objective\":" + objective_json(*table.objective());
  text += ",\"all_max\":";
  put(text, table.all_max());
  text += ",\"plans\":[";
  for (std::size_t i = 0; i < table.plans().size(); ++i) {
    if (i > 0) text += ',';
    put(text, table.plans()[i]);
  }
  return text + "]}";
}

// --- Reading ------------------------------------------------------------------------------------

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

/// Takes the part before `separator`, or what is left, off a text.
std::string_view take_part(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

template <class Unit>
std::vector<Unit> read_stored_numbers(Fields& fields, std::string_view key, double highest) {
  std::vector<Unit> values;
  const std::string list = fields.text(key).value_or("");
  for (std::string_view rest = list; !rest.empty();) {
    const auto number = parse_number(take_part(rest, ' '));
    if (!number || !(std::abs(*number) <= highest)) {
      fields.fault(key, "expected numbers of at most 1e18");
      return {};
    }
    values.push_back({*number});
  }
  return values;
}

std::vector<std::vector<Megahertz>> read_clocks_of_stages(Fields& fields) {
  std::vector<std::vector<Megahertz>> stages;
  const JsonValue* lists = fields.any("clocks_mhz");
  if (lists == nullptr || lists->type != Type::kArray) {
    fields.fault("clocks_mhz", "expected a list of clocks for each stage");
    return stages;
  }
  for (const JsonValue& stage : lists->items) {
    std::vector<Megahertz>& clocks = stages.emplace_back();
    for (const JsonValue& item : stage.items) {
      if (!item.is_integer || item.integer < 0 || item.integer > kHighestClock) {
        fields.fault("clocks_mhz", "a clock is a whole number of MHz from 0 to 100000");
        return stages;
      }
      clocks.push_back({static_cast<int>(item.integer)});
    }
  }
  return stages;
}

/// False where it is not "CLOCK" or "CLOCKxCOUNT", or more than `most` in all.
bool read_counted_clock(std::string_view part, std::size_t most, std::vector<Megahertz>& clocks) {
  const std::string_view number = take_part(part, 'x');
  const auto clock = parse_integer(number);
  const auto count = part.empty() ? std::optional<std::int64_t>(1) : parse_integer(part);
  if (!clock || *clock < 0 || *clock > kHighestClock || !count || *count < 1 ||
      static_cast<std::uint64_t>(*count) > most) {
    return false;
  }
  clocks.insert(clocks.end(), static_cast<std::size_t>(*count), {static_cast<int>(*clock)});
  return true;
}

/// \param left  clocks that the rest of the table may have: few bytes may count many
std::vector<std::vector<Megahertz>> read_stored_clocks(Fields& fields, std::size_t& left) {
  std::vector<std::vector<Megahertz>> stages;
  const std::string text = fields.text("clocks_mhz").value_or("");
  for (std::string_view rest = text; !rest.empty() || stages.empty();) {
    std::vector<Megahertz>& clocks = stages.emplace_back();
    const bool is_last = rest.find(';') == std::string_view::npos;
    for (std::string_view stage = take_part(rest, ';'); !stage.empty();) {
      if (!read_counted_clock(take_part(stage, ' '), left - clocks.size(), clocks)) {
        fields.fault("clocks_mhz", "expected clocks such as '1410x12 1200' for each stage");
        return stages;
      }
    }
    left -= clocks.size();
    if (is_last) break;
    // An empty list may stand at the end.
    if (rest.empty()) stages.emplace_back();
  }
  return stages;
}

/// \param left  of a stored table: see `read_stored_clocks`; null: it is none
TablePlan read_plan(const JsonValue& object, Faults& faults, std::size_t* left) {
  Fields fields(object, "a plan", faults);
  TablePlan plan;
  plan.time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  plan.energy.value =
      needed(fields, "energy_j", fields.number("energy_j", -kMostEnergy, kMostEnergy));
  plan.gap = fields.number("gap", -1, kMostEnergy);
  plan.for_objective = fields.boolean("for_objective").value_or(false);
  if (left != nullptr) {
    plan.compute_time = read_stored_numbers<Seconds>(fields, "compute_time_s", kLongestTime);
    plan.compute_energy = read_stored_numbers<Joules>(fields, "compute_energy_j", kMostEnergy);
    plan.clocks = read_stored_clocks(fields, *left);
  } else {
    plan.compute_time = read_numbers<Seconds>(fields, "compute_time_s", kLongestTime);
    plan.compute_energy = read_numbers<Joules>(fields, "compute_energy_j", kMostEnergy);
    plan.clocks = read_clocks_of_stages(fields);
  }
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
  return table_text(*this, kFormat, put_plan);
}

std::string PlanTable::stored_text() const {
  return table_text(*this, kStoredFormat, put_stored_plan);
}

Result<PlanTable> PlanTable::parse(std::string_view text, const std::string& file) {
  JsonValue document = HARPE_TRY(parse_json(text, file));
  Faults faults(file);
  Fields fields(document, "the plan table", faults);
  PlanTable table;
  const std::string format = fields.text("format").value_or("");
  std::size_t most_clocks = kMostStored;
  std::size_t* const left = format == kStoredFormat ? &most_clocks : nullptr;
  if (left == nullptr && format != kFormat) {
    fields.fault("format", std::string("expected '") + kFormat + "'");
  }
  table.waiting_power_.value =
      needed(fields, "waiting_power_w", fields.number("waiting_power_w", 0, kMostPower));
  if (const JsonValue* objective = fields.object("objective")) {
    Fields of_objective(*objective, "the objective", faults);
    table.objective_ = read_objective(of_objective);
  }
  if (const JsonValue* all_max = fields.object("all_max")) {
    table.all_max_ = read_plan(*all_max, faults, left);
  } else {
    fields.fault("all_max", "expected a plan");
  }
  for (const JsonValue* plan : fields.objects("plans")) {
    TablePlan one = read_plan(*plan, faults, left);
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
  if (!faults.empty()) return Error::invalid(std::move(faults));
  table.index();
  return table;
}

}  // namespace harpe
