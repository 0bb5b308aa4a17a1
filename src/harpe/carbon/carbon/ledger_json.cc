#include "harpe/carbon/carbon/ledger_json.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/possible_energy.h"
#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

using LedgerJson = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr std::string_view kRunFormat = "harpe.run/1";
constexpr std::string_view kLedgerFormats = "harpe.energy/";
constexpr double kLatestStart = 7'258'118'400;  // s since 1970
constexpr std::int64_t kMostDevices = 100'000'000;
// GPUs of the largest job: bounds the energy of an interval if its device hours are not stated.
constexpr double kMostGpus = 262'144;
constexpr std::size_t kLongestName = 4096;

/// A column of the rows, with access to its number in an EnergyUse.
struct UseColumn {
  std::string_view name;
  double (*get)(const EnergyUse&);
  void (*set)(EnergyUse&, double);
};
constexpr std::array kUseColumns = std::to_array<UseColumn>({
    {"energy_j", [](const EnergyUse& use) { return use.energy.value; },
     [](EnergyUse& use, double value) { use.energy.value = value; }},
    {"host_j", [](const EnergyUse& use) { return use.host.value; },
     [](EnergyUse& use, double value) { use.host.value = value; }},
    {"error_j", [](const EnergyUse& use) { return use.half_width().value; },
     [](EnergyUse& use, double value) { use.variance = value * value; }},
    {"sensor_error_j", [](const EnergyUse& use) { return use.sensor_error.value; },
     [](EnergyUse& use, double value) { use.sensor_error.value = value; }},
    {"without_error_j", [](const EnergyUse& use) { return use.without_error.value; },
     [](EnergyUse& use, double value) { use.without_error.value = value; }},
    {"device_s", [](const EnergyUse& use) { return use.device_time.value; },
     [](EnergyUse& use, double value) { use.device_time.value = value; }},
    {"measured_s", [](const EnergyUse& use) { return use.measured.value; },
     [](EnergyUse& use, double value) { use.measured.value = value; }},
    {"iterations", [](const EnergyUse& use) { return use.iterations; },
     [](EnergyUse& use, double value) { use.iterations = value; }},
    {"paused_s", [](const EnergyUse& use) { return use.paused.value; },
     [](EnergyUse& use, double value) { use.paused.value = value; }},
});

double rounded(double value) {
  constexpr double kMillion = 1e6;
  return value < 1e9 ? std::round(value * kMillion) / kMillion : value;
}

LedgerJson intervals_of(const EnergyLedger& ledger) {
  LedgerJson columns = {"start"}, rows = LedgerJson::array();
  for (const UseColumn& column : kUseColumns) columns.push_back(column.name);
  for (const auto& [start, use] : ledger.uses()) {
    LedgerJson row = {start.since_1970};
    for (const UseColumn& column : kUseColumns) row.push_back(rounded(column.get(use)));
    rows.push_back(std::move(row));
  }
  return {{"step_s", ledger.step().count()},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)}};
}

LedgerJson run_json(const LedgerRun& run) {
  LedgerJson json = {{"id", run.id},
                     {"job", run.job},
                     {"run", run.run},
                     {"start", run.start},
                     {"user", run.user.empty() ? LedgerJson() : LedgerJson(run.user)},
                     {"devices", run.devices},
                     {"simulated", run.simulated}};
  if (run.tokens_per_iteration > 0) json["tokens_per_iteration"] = run.tokens_per_iteration;
  json["device_ids"] = run.device_ids;
  json["meters"] = run.meters;
  json["notes"] = run.notes;
  json["intervals"] = intervals_of(run.ledger);
  return json;
}

std::string name_in(Fields& fields, std::string_view key) {
  const JsonValue* value = fields.any(key);
  if (value == nullptr || value->type == Type::kNull) return {};
  std::string text = fields.text(key).value_or("");
  if (text.size() > kLongestName) fields.error(key, "is longer than 4096 bytes");
  return text;
}

std::vector<std::string> texts_in(Fields& fields, std::string_view key) {
  std::vector<std::string> texts = fields.texts(key).value_or(std::vector<std::string>());
  if (texts.size() > kMostLedgerTexts) fields.error(key, "has more than 10000 entries");
  return texts;
}

/// For each position in a row, the index in `kUseColumns`, nullopt if unknown; `start_at` is the
/// position of "start".
struct RowColumns {
  std::vector<std::optional<std::size_t>> uses;
  std::size_t start_at = 0;
};

std::optional<RowColumns> read_columns(Fields& fields) {
  const auto names = fields.texts("columns");
  if (!names) {
    fields.error("columns", "expected the names of columns");
    return std::nullopt;
  }
  RowColumns columns;
  std::optional<std::size_t> start;
  for (std::size_t i = 0; i < names->size(); ++i) {
    columns.uses.emplace_back();
    if ((*names)[i] == "start") start = i;
    for (std::size_t k = 0; k < kUseColumns.size(); ++k) {
      if (kUseColumns[k].name == (*names)[i]) columns.uses.back() = k;
    }
  }
  if (!start) {
    fields.error("columns", "has no 'start'");
    return std::nullopt;
  }
  columns.start_at = *start;
  return columns;
}

/// Returns true if `part` is at most `whole`, except for rounding to microjoules.
bool is_part(Joules part, Joules whole) {
  return part <= whole * (1 + 1e-9) + Joules{2e-6};
}

/// Returns true if the row was added.
bool add_row(const JsonValue& row, const RowColumns& columns, EnergyLedger& ledger,
             Diagnostics& diagnostics) {
  const auto wrong = [&](const std::string& what) {
    diagnostics.add(row.line, row.column, what);
    return false;
  };
  if (row.type != Type::kArray || row.items.size() != columns.uses.size()) {
    return wrong("expected a list of " + std::to_string(columns.uses.size()) + " numbers");
  }
  EnergyUse use;
  for (std::size_t i = 0; i < row.items.size(); ++i) {
    if (row.items[i].type != Type::kNumber) return wrong("expected numbers");
    if (row.items[i].number > kMostEnergy) return wrong("a number is over 1e18");
    if (columns.uses[i]) kUseColumns[*columns.uses[i]].set(use, row.items[i].number);
  }
  const JsonValue& start = row.items[columns.start_at];
  if (!start.is_integer || start.integer < 0 || static_cast<double>(start.integer) > kLatestStart) {
    return wrong("'start' must be a whole number of seconds since 1970");
  }
  if (start.integer % ledger.step().count() != 0) {
    return wrong("the start of the interval is not a multiple of the step");
  }
  if (ledger.uses().contains({start.integer})) return wrong("the interval occurs twice");
  const auto at = static_cast<double>(start.integer);
  const bool has_parts = is_part(use.host, use.energy) && is_part(use.without_error, use.energy);
  if (use.energy >= Joules{0} && !has_parts)
    return wrong("host_j and without_error_j are parts of energy_j, but one is larger");
  use.host = std::min(use.host, use.energy);
  use.without_error = std::min(use.without_error, use.energy);
  const Seconds stated = std::max(use.device_time, use.measured);
  const Seconds time =
      stated > Seconds{0} ? stated : Seconds{double(ledger.step().count()) * kMostGpus};
  const std::string impossible =
      why_impossible(use.energy - use.host, use.half_width(), time, kMostGpuPower);
  if (use.energy >= Joules{0} && !impossible.empty()) return wrong("energy_j: " + impossible);
  const Status added = ledger.add(at, at, use);
  return added.ok() || wrong(added.error().text());
}

EnergyLedger read_intervals(const JsonValue& intervals, Diagnostics& diagnostics) {
  Fields fields(intervals, "intervals", diagnostics);
  const auto step = fields.integer("step_s", 1, whole_days(1).count());
  const std::optional<RowColumns> columns = read_columns(fields);
  const JsonValue* rows = fields.any("rows");
  if (!step || !EnergyLedger::is_step(WholeSeconds(*step))) {
    fields.error("step_s", "expected seconds that divide a day");
    return EnergyLedger();
  }
  EnergyLedger ledger{WholeSeconds(*step)};
  if (rows == nullptr || rows->type != Type::kArray) {
    fields.error("rows", "expected a list of rows");
    return ledger;
  }
  for (const JsonValue& row : rows->items) {
    if (!columns || diagnostics.count() >= Diagnostics::kLimit) break;
    add_row(row, *columns, ledger, diagnostics);
  }
  return ledger;
}

LedgerRun read_run(const JsonValue& value, Diagnostics& diagnostics) {
  Fields fields(value, "a run", diagnostics);
  LedgerRun run;
  run.id = name_in(fields, "id");
  if (run.id.empty()) fields.error("id", "expected a text");
  run.job = name_in(fields, "job");
  run.run = name_in(fields, "run");
  run.user = name_in(fields, "user");
  run.start = fields.integer("start", 0, kMostDevices).value_or(0);
  run.devices = fields.integer("devices", 0, kMostDevices).value_or(0);
  run.simulated = fields.boolean("simulated").value_or(false);
  run.tokens_per_iteration =
      fields.number("tokens_per_iteration", 0, kMostTokensPerIteration).value_or(0);
  run.device_ids = texts_in(fields, "device_ids");
  run.meters = texts_in(fields, "meters");
  run.notes = texts_in(fields, "notes");
  if (const JsonValue* intervals = fields.object("intervals")) {
    run.ledger = read_intervals(*intervals, diagnostics);
  } else {
    fields.error("intervals", "expected the energy by interval");
  }
  return run;
}

/// Reads the devices that `harpe run` measured: the number of GPUs, their ids and the meters.
void read_devices(Fields& report, Diagnostics& diagnostics, LedgerRun& run) {
  for (const JsonValue* item : report.objects("devices")) {
    Fields device(*item, "a device", diagnostics);
    const std::string kind = name_in(device, "kind");
    if (kind == "gpu") ++run.devices;
    const std::string uuid = name_in(device, "uuid");
    if (!uuid.empty()) run.device_ids.push_back(uuid);
    const JsonValue* measured = device.any("measured");
    if (measured == nullptr || measured->type != Type::kObject) continue;
    Fields energy(*measured, "measured", diagnostics);
    const std::string meter = kind + ": " + name_in(energy, "source");
    if (std::ranges::find(run.meters, meter) == run.meters.end()) run.meters.push_back(meter);
  }
}

/// Checks that the rows of a report add up to its total.
void check_total(Fields& report, Diagnostics& diagnostics, const EnergyLedger& ledger) {
  constexpr double kOfRow = 1e-6;  // J of a row, and relative
  const JsonValue* total = report.object("total");
  if (total == nullptr || diagnostics.count() > 0) return;
  const JsonValue* energy = total->find("energy_j");
  if (energy == nullptr || energy->type != Type::kNumber) return;
  const double rows = ledger.total().energy.value;
  const double most = kOfRow * (static_cast<double>(ledger.size()) + std::abs(energy->number));
  if (std::abs(rows - energy->number) <= most) return;
  diagnostics.add(energy->line, energy->column,
                  "the rows of 'intervals' add up to " + shortest(rows, 6) +
                      " J, but the total is " + shortest(energy->number, 6) + " J");
}

LedgerRun read_report(Fields& fields, Diagnostics& diagnostics) {
  LedgerRun run;
  run.id = name_in(fields, "id");
  const JsonValue* intervals = fields.any("intervals");
  if (run.id.empty() || intervals == nullptr || intervals->type != Type::kObject) {
    fields.error("intervals", "the report has no energy by interval: nothing was measured");
    return run;
  }
  for (const std::string& word : fields.texts("command").value_or(std::vector<std::string>())) {
    run.job += (run.job.empty() ? "" : " ") + word;
  }
  run.simulated = fields.boolean("simulated").value_or(false);
  run.notes = texts_in(fields, "notes");
  run.user = name_in(fields, "user");
  read_devices(fields, diagnostics, run);
  run.ledger = read_intervals(*intervals, diagnostics);
  check_total(fields, diagnostics, run.ledger);
  return run;
}

}  // namespace

std::string ledger_json(const std::vector<LedgerRun>& runs) {
  LedgerJson list = LedgerJson::array();
  for (const LedgerRun& run : runs) list.push_back(run_json(run));
  return json_line(LedgerJson{{"format", kLedgerFormat}, {"runs", std::move(list)}});
}

std::string intervals_json(const EnergyLedger& ledger) {
  return json_line(intervals_of(ledger));
}

Result<std::vector<LedgerRun>> parse_ledger(std::string_view text, const std::string& file) {
  const JsonValue document = HARPE_TRY(parse_json(text, file));
  Diagnostics diagnostics(file);
  Fields fields(document, "the file", diagnostics);
  std::vector<LedgerRun> runs;
  if (document.type == Type::kObject) {
    const std::string format = name_in(fields, "format");
    const bool is_report = format == kRunFormat || (format.empty() && fields.any("command"));
    if (is_report) {
      runs.push_back(read_report(fields, diagnostics));
    } else if (format.starts_with(kLedgerFormats) && format != kLedgerFormat) {
      fields.error("format", in_quotes(format) +
                                 " is from a later version of Harpe; this version reads " +
                                 std::string(kLedgerFormat));
    } else if (format != kLedgerFormat) {
      fields.error("format", "expected a report of 'harpe run --out' or the energy of a job (" +
                                 std::string(kLedgerFormat) + ")");
    } else {
      const std::vector<const JsonValue*> items = fields.objects("runs");
      if (items.size() > kMostLedgerRuns) fields.error("runs", "has more than 100000 runs");
      for (const JsonValue* item : items) {
        if (diagnostics.count() >= Diagnostics::kLimit) break;
        runs.push_back(read_run(*item, diagnostics));
      }
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return runs;
}

}  // namespace harpe::carbon
