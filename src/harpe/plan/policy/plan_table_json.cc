#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/plan/instruction/knobs_json.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe::plan {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr const char* kFormat = "harpe.plan_table/1";
/// In this format lists are strings, with a count for repeated clocks: a JSON value takes more than
/// a hundred bytes while it is read.
constexpr const char* kStoredFormat = "harpe.plan_table/2";
constexpr std::size_t kMostInList = 4'000'000;
constexpr std::size_t kMostStored = 2 * kMaxPlanCells;

// --- Writing ------------------------------------------------------------------------------------
// Tables have up to ten million clocks, so no tree of JSON values is built.

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

/// The number of an instruction's knobs in the table's list of knobs.
struct KnobNumber {
  int value = 0;
  friend bool operator==(KnobNumber, KnobNumber) = default;
};

std::vector<std::vector<KnobNumber>> numbers_of(const TablePlan& plan, KnobNumbers& numbers) {
  std::vector<std::vector<KnobNumber>> stages;
  for (const auto& list : plan.knobs) {
    auto& stage = stages.emplace_back();
    for (const Knobs& knobs : list) stage.push_back({static_cast<int>(numbers.number(knobs))});
  }
  return stages;
}

/// Appends the lists of all stages: "[1410,1200],[1410]".
template <class Number>
void put_lists(std::string& text, const std::vector<std::vector<Number>>& stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    text += stage == 0 ? "[" : ",[";
    for (std::size_t i = 0; i < stages[stage].size(); ++i) {
      if (i > 0) text += ',';
      put_integer(text, stages[stage][i].value);
    }
    text += ']';
  }
}

/// Appends a list with counts of repeated numbers: "1410x12 1200".
template <class Number>
void put_counted(std::string& text, const std::vector<Number>& list) {
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i;
    while (end < list.size() && list[end] == list[i]) ++end;
    if (i > 0) text += ' ';
    put_integer(text, list[i].value);
    if (end - i > 1) {
      text += 'x';
      put_integer(text, static_cast<std::int64_t>(end - i));
    }
    i = end;
  }
}

template <class Number>
void put_counted_lists(std::string& text, const std::vector<std::vector<Number>>& stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stage > 0) text += ';';
    put_counted(text, stages[stage]);
  }
}

void put_figures(std::string& text, const TablePlan& plan) {
  text += "{\"time_s\":" + shortest(plan.time.value);
  text += ",\"energy_j\":" + shortest(plan.energy.value);
  if (plan.gap) text += ",\"gap\":" + shortest(*plan.gap);
  if (plan.for_objective) text += ",\"for_objective\":true";
}

void put_plan(std::string& text, const TablePlan& plan, KnobNumbers& numbers) {
  put_figures(text, plan);
  text += ",\"compute_time_s\":[";
  put_numbers(text, plan.compute_time, ',');
  text += "],\"compute_energy_j\":[";
  put_numbers(text, plan.compute_energy, ',');
  text += "],\"clocks_mhz\":[";
  put_lists(text, plan.clocks);
  if (!plan.knobs.empty()) {
    text += "],\"knobs_of\":[";
    put_lists(text, numbers_of(plan, numbers));
  }
  text += "]}";
}

void put_stored_plan(std::string& text, const TablePlan& plan, KnobNumbers& numbers) {
  put_figures(text, plan);
  text += ",\"compute_time_s\":\"";
  put_numbers(text, plan.compute_time, ' ');
  text += "\",\"compute_energy_j\":\"";
  put_numbers(text, plan.compute_energy, ' ');
  text += "\",\"clocks_mhz\":\"";
  put_counted_lists(text, plan.clocks);
  if (!plan.knobs.empty()) {
    text += "\",\"knobs_of\":\"";
    put_counted_lists(text, numbers_of(plan, numbers));
  }
  text += "\"}";
}

void put_one_clock(std::string& text, const std::vector<OneSettingPoint>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    text += i == 0 ? "[{" : ",{";
    text += "\"frequency_mhz\":" + std::to_string(points[i].setting.clock.value) +
            ",\"time_s\":" + shortest(points[i].iteration_time.value) +
            ",\"energy_j\":" + shortest(points[i].iteration_energy.value) + '}';
  }
  text += ']';
}

template <class PutPlan>
std::string table_text(const PlanTable& table, const char* format, PutPlan put) {
  std::string text = std::string("{\"format\":\"") + format +
                     "\",\"waiting_power_w\":" + shortest(table.waiting_power().value);
  if (table.objective()) text += ",\"objective\":" + objective_json(*table.objective());
  if (!table.one_clock().empty()) {
    text += ",\"one_clock\":";
    put_one_clock(text, table.one_clock());
  }
  text += ",\"all_max\":";
  KnobNumbers numbers;
  put(text, table.all_max(), numbers);
  text += ",\"plans\":[";
  for (std::size_t i = 0; i < table.plans().size(); ++i) {
    if (i > 0) text += ',';
    put(text, table.plans()[i], numbers);
  }
  text += ']';
  if (!numbers.empty()) text += ",\"knobs\":" + numbers.json();
  return text + '}';
}

// --- Reading ------------------------------------------------------------------------------------

template <class Unit>
std::vector<Unit> read_numbers(Fields& fields, std::string_view key, double highest) {
  std::vector<Unit> values;
  const JsonValue* list = fields.any(key);
  if (list == nullptr || list->type != Type::kArray || list->items.size() > kMostInList) {
    fields.error(key, "expected a list of numbers");
    return values;
  }
  for (const JsonValue& item : list->items) {
    if (item.type != Type::kNumber || std::abs(item.number) > highest) {
      fields.error(key, "expected numbers of at most 1e18");
      return {};
    }
    values.push_back({item.number});
  }
  return values;
}

/// Removes the part before `separator` from a text and returns it; without a separator, all of it.
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
      fields.error(key, "expected numbers of at most 1e18");
      return {};
    }
    values.push_back({*number});
  }
  return values;
}

/// A kind of list that a plan has for each stage: its key, its largest number and its messages.
struct ListKind {
  std::string_view key;
  int highest = 0;
  const char* no_list;
  const char* no_number;
  const char* no_counted;
};
constexpr ListKind kClocks{"clocks_mhz", kHighestClock, "expected a list of clocks for each stage",
                           "a clock is a whole number of MHz from 0 to 100000",
                           "expected clocks such as '1410x12 1200' for each stage"};

ListKind knob_numbers(std::size_t known) {
  return {"knobs_of", static_cast<int>(known) - 1,
          "expected a list of numbers of knobs for each stage",
          "expected places in the table's \"knobs\"",
          "expected places in the table's \"knobs\" such as '0x12 1' for each stage"};
}

template <class Number>
std::vector<std::vector<Number>> read_lists(Fields& fields, const ListKind& kind) {
  std::vector<std::vector<Number>> stages;
  const JsonValue* lists = fields.any(kind.key);
  if (lists == nullptr || lists->type != Type::kArray) {
    fields.error(kind.key, kind.no_list);
    return stages;
  }
  for (const JsonValue& stage : lists->items) {
    std::vector<Number>& list = stages.emplace_back();
    for (const JsonValue& item : stage.items) {
      if (!item.is_integer || item.integer < 0 || item.integer > kind.highest) {
        fields.error(kind.key, kind.no_number);
        return stages;
      }
      list.push_back({static_cast<int>(item.integer)});
    }
  }
  return stages;
}

/// Appends the numbers of "NUMBER" or "NUMBERxCOUNT" to `list`. Returns false if `part` is neither,
/// or counts more than `most`.
template <class Number>
bool read_counted(std::string_view part, int highest, std::size_t most, std::vector<Number>& list) {
  const std::string_view digits = take_part(part, 'x');
  const auto number = parse_integer(digits);
  const auto count = part.empty() ? std::optional<std::int64_t>(1) : parse_integer(part);
  if (!number || *number < 0 || *number > highest || !count || *count < 1 ||
      static_cast<std::uint64_t>(*count) > most) {
    return false;
  }
  list.insert(list.end(), static_cast<std::size_t>(*count), {static_cast<int>(*number)});
  return true;
}

/// \param left  numbers that the rest of the table may have: a few bytes can encode many
template <class Number>
std::vector<std::vector<Number>> read_counted_lists(Fields& fields, const ListKind& kind,
                                                    std::size_t& left) {
  std::vector<std::vector<Number>> stages;
  const std::string text = fields.text(kind.key).value_or("");
  for (std::string_view rest = text; !rest.empty() || stages.empty();) {
    std::vector<Number>& list = stages.emplace_back();
    const bool is_last = rest.find(';') == std::string_view::npos;
    for (std::string_view stage = take_part(rest, ';'); !stage.empty();) {
      if (!read_counted(take_part(stage, ' '), kind.highest, left - list.size(), list)) {
        fields.error(kind.key, kind.no_counted);
        return stages;
      }
    }
    left -= list.size();
    if (is_last) break;
    // The last list can be empty.
    if (rest.empty()) stages.emplace_back();
  }
  return stages;
}

/// State shared by the readers of all plans of a table.
struct TableParts {
  Diagnostics& diagnostics;
  std::vector<Knobs> knobs = {};
  bool stored = false;
  std::size_t left = kMostStored;  ///< for a stored table: see `read_counted_lists`
};

template <class Number>
std::vector<std::vector<Number>> read_lists(Fields& fields, const ListKind& kind,
                                            TableParts& parts) {
  return parts.stored ? read_counted_lists<Number>(fields, kind, parts.left)
                      : read_lists<Number>(fields, kind);
}

std::vector<std::vector<Knobs>> read_knobs_of_stages(Fields& fields, TableParts& parts) {
  std::vector<std::vector<Knobs>> stages;
  if (fields.any("knobs_of") == nullptr) return stages;
  const auto numbers = read_lists<KnobNumber>(fields, knob_numbers(parts.knobs.size()), parts);
  for (const std::vector<KnobNumber>& list : numbers) {
    std::vector<Knobs>& stage = stages.emplace_back();
    for (const KnobNumber number : list) {
      stage.push_back(parts.knobs[static_cast<std::size_t>(number.value)]);
    }
  }
  const bool any = std::ranges::any_of(stages, [](const std::vector<Knobs>& list) {
    return !std::ranges::all_of(list, &Knobs::empty);
  });
  if (!any) stages.clear();
  return stages;
}

TablePlan read_plan(const JsonValue& object, TableParts& parts) {
  Fields fields(object, "a plan", parts.diagnostics);
  TablePlan plan;
  plan.time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  plan.energy.value =
      needed(fields, "energy_j", fields.number("energy_j", -kMostEnergy, kMostEnergy));
  plan.gap = fields.number("gap", -1, kMostEnergy);
  plan.for_objective = fields.boolean("for_objective").value_or(false);
  if (parts.stored) {
    plan.compute_time = read_stored_numbers<Seconds>(fields, "compute_time_s", kLongestTime);
    plan.compute_energy = read_stored_numbers<Joules>(fields, "compute_energy_j", kMostEnergy);
  } else {
    plan.compute_time = read_numbers<Seconds>(fields, "compute_time_s", kLongestTime);
    plan.compute_energy = read_numbers<Joules>(fields, "compute_energy_j", kMostEnergy);
  }
  plan.clocks = read_lists<Megahertz>(fields, kClocks, parts);
  plan.knobs = read_knobs_of_stages(fields, parts);
  const auto size = [](const auto& list) { return list.size(); };
  if (!plan.knobs.empty() && !std::ranges::equal(plan.knobs, plan.clocks, {}, size, size)) {
    fields.error("knobs_of", "expected as many as there are clocks");
  }
  return plan;
}

OneSettingPoint read_one_clock(const JsonValue& object, Diagnostics& diagnostics) {
  Fields fields(object, "one clock", diagnostics);
  OneSettingPoint point;
  const std::int64_t clock =
      needed(fields, "frequency_mhz", fields.integer("frequency_mhz", 0, kHighestClock));
  point.setting.clock.value = static_cast<int>(clock);
  point.iteration_time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  point.iteration_energy.value =
      needed(fields, "energy_j", fields.number("energy_j", -kMostEnergy, kMostEnergy));
  return point;
}

/// Returns true if the lists of both plans have the same lengths.
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
  return read(HARPE_TRY(parse_json(text, file)), file);
}

Result<PlanTable> PlanTable::read(const JsonValue& document, const std::string& file) {
  Diagnostics diagnostics(file);
  Fields fields(document, "the plan table", diagnostics);
  PlanTable table;
  const std::string format = fields.text("format").value_or("");
  TableParts parts{.diagnostics = diagnostics, .stored = format == kStoredFormat};
  if (!parts.stored && format != kFormat) {
    fields.error("format", std::string("expected '") + kFormat + "'");
  }
  table.waiting_power_.value =
      needed(fields, "waiting_power_w", fields.number("waiting_power_w", 0, kMostPower));
  if (const JsonValue* objective = fields.object("objective")) {
    Fields of_objective(*objective, "the objective", diagnostics);
    table.objective_ = read_objective(of_objective);
  }
  for (const JsonValue* point : fields.objects("one_clock")) {
    table.one_clock_.push_back(read_one_clock(*point, diagnostics));
  }
  parts.knobs = read_knob_list(fields, "knobs", diagnostics);
  if (const JsonValue* all_max = fields.object("all_max")) {
    table.all_max_ = read_plan(*all_max, parts);
  } else {
    fields.error("all_max", "expected a plan");
  }
  for (const JsonValue* plan : fields.objects("plans")) {
    TablePlan one = read_plan(*plan, parts);
    if (!same_lists(one, table.all_max_)) {
      diagnostics.add(plan->line, plan->column, "has other lists than \"all_max\"");
    } else if (!table.plans_.empty() && one.time <= table.plans_.back().time) {
      diagnostics.add(plan->line, plan->column, "expected plans in ascending order of time");
    }
    table.plans_.push_back(std::move(one));
  }
  if (table.plans_.empty()) fields.error("plans", "expected at least one plan");
  if (!same_lists(table.all_max_, table.all_max_)) {
    fields.error("all_max", "expected times, energies and clocks for the same stages");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  table.index();
  return table;
}

}  // namespace harpe::plan
