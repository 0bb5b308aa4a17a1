#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/on_all_processors.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/lab/reproduce/sosp24.h"

namespace harpe::command {
namespace {

struct ReproduceArguments {
  std::string folder, out;
  lab::ReproduceOptions options;
};

/// Heading of a table on the terminal, by the name of its rows. EnvPipe's rows with a straggler,
/// which hardly differ from the rows without, are only in files.
struct Heading {
  std::string what, text;
  int decimals;
  bool by_straggler = false;
};

const std::vector<Heading>& headings() {
  static const std::vector<Heading> kHeadings = {
      {"intrinsic_saving_percent", "Saving of the fastest plan, without a straggler, %", 2},
      {"intrinsic_slowdown_percent", "Slowdown of that plan against all-max, %", 2},
      {"job_saving_percent", "Saving of the whole job, one pipeline slower by", 1, true},
      {"least_energy_time_ratio",
       "Time of the plan of least energy over that of the fastest plan, T*/T", 3},
      {"envpipe_intrinsic_saving_percent", "EnvPipe: saving without a straggler, %", 2},
      {"table3_saving_percent", "Measured runs: saving of the fastest plan, %", 1},
      {"table3_slowdown_percent", "Measured runs: slowdown of the fastest plan, %", 1},
      {"table4_saving_percent", "Measured runs: saving of a pipeline, another one slower by", 1,
       true}};
  return kHeadings;
}

/// The source of a value: a column of the tables.
struct Source {
  const char* name;
  std::optional<double> lab::ReproducedRow::* value;
};
constexpr Source kSources[] = {{"published", &lab::ReproducedRow::published},
                               {"recomputed", &lab::ReproducedRow::recomputed},
                               {"by clocks", &lab::ReproducedRow::by_clocks},
                               {"Harpe", &lab::ReproducedRow::harpe}};

std::string cell(const std::optional<double>& value, int decimals) {
  if (!value) return "-";
  const std::string text = fixed(*value, decimals);
  return text.find_first_not_of("-0.") == std::string::npos ? fixed(0, decimals) : text;
}

std::vector<std::string> job_cells(const lab::ReproducedRow& row) {
  return {row.workload, row.gpu, grouped(row.gpus, 0), std::to_string(row.micro_batches)};
}

Table plain_table(const Heading& heading, std::span<const lab::ReproducedRow> rows) {
  Table table = Table::of({"workload", "GPU", "GPUs", "mb"}, 2);
  for (const Source& source : kSources) table.columns.push_back({.heading = source.name});
  for (const lab::ReproducedRow& row : rows) {
    if (row.what != heading.what) continue;
    std::vector<std::string> cells = job_cells(row);
    for (const Source& source : kSources)
      cells.push_back(cell(row.*source.value, heading.decimals));
    table.add(std::move(cells));
  }
  return table;
}

/// Returns a table with a column for each slowdown of the straggler and a row for each source.
Table straggler_table(const Heading& heading, std::span<const lab::ReproducedRow> rows) {
  Table table = Table::of({"workload", "GPU", "GPUs", "mb", ""}, 2);
  constexpr std::size_t kColumns = std::size(lab::kPublishedStragglers);
  for (const double straggler : lab::kPublishedStragglers)
    table.columns.push_back({.heading = fixed(straggler, 2)});
  for (std::size_t i = 0; i < rows.size();) {
    if (rows[i].what != heading.what) {
      ++i;
      continue;
    }
    std::vector<std::string> first = job_cells(rows[i]);
    for (const Source& source : kSources) {
      if (!(rows[i].*source.value)) continue;
      std::vector<std::string> cells = std::exchange(first, std::vector<std::string>(4));
      cells.emplace_back(source.name);
      for (std::size_t k = i; k < i + kColumns; ++k)
        cells.push_back(cell(rows[k].*source.value, heading.decimals));
      table.add(std::move(cells));
    }
    i += kColumns;
  }
  return table;
}

std::string text_of(const lab::ReproducedRows& found, int width) {
  std::string text;
  for (const Heading& heading : headings()) {
    const Table table = heading.by_straggler ? straggler_table(heading, found.rows)
                                             : plain_table(heading, found.rows);
    if (!table.rows.empty()) text += heading.text + '\n' + table.text(false) + '\n';
  }
  text +=
      "published   by the evaluation's own rules, from its published frontiers and runs\n"
      "recomputed  the same rules, by Perseus's published algorithm from the profile\n"
      "by clocks   the same plans with the real times and energies of their clocks\n"
      "Harpe       its plans, with the real times and energies of their clocks\n"
      "mb          micro-batches of a pipeline; see docs/reproduction.md\n";
  for (const std::string& note : found.notes) text += wrapped_text("note: " + note, width);
  return text;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const lab::ReproducedRows& found) {
  Json rows = Json::array();
  for (const lab::ReproducedRow& row : found.rows)
    rows.push_back({{"what", row.what},
                    {"workload", row.workload},
                    {"gpu", row.gpu},
                    {"gpus", row.gpus},
                    {"micro_batches", row.micro_batches},
                    {"straggler", row.straggler},
                    {"published", optional_json(row.published)},
                    {"recomputed", optional_json(row.recomputed)},
                    {"by_clocks", optional_json(row.by_clocks)},
                    {"harpe", optional_json(row.harpe)}});
  return {{"rows", std::move(rows)}, {"notes", found.notes}};
}

std::string csv_of(const std::vector<lab::ReproducedRow>& rows) {
  const auto number = [](const std::optional<double>& value) {
    return value ? shortest(*value) : std::string();
  };
  std::string text =
      "what,workload,gpu,gpus,micro_batches,straggler,published,recomputed,by_clocks,harpe\n";
  for (const lab::ReproducedRow& row : rows) {
    text += row.what + ',' + csv_cell(row.workload) + ',' + csv_cell(row.gpu) + ',' +
            std::to_string(row.gpus) + ',' + std::to_string(row.micro_batches) + ',' +
            shortest(row.straggler) + ',' + number(row.published) + ',' + number(row.recomputed) +
            ',' + number(row.by_clocks) + ',' + number(row.harpe) + '\n';
  }
  return text;
}

/// Computes all tables, several at once. Reports errors of all of them together.
Result<lab::ReproducedRows> computed(const std::vector<lab::ReproducedTable>& tables,
                                     Console& console) {
  std::vector<std::optional<Result<lab::ReproducedRows>>> results(tables.size());
  {
    ProgressBar bar(console, "tables");
    on_all_processors(
        tables.size(), [&](std::size_t i) { results[i] = tables[i].compute(); },
        [&bar](double share) { bar.update(share); });
  }
  lab::ReproducedRows all;
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Result<lab::ReproducedRows>& result = *results[i];
    if (!result.ok()) {
      diagnostics.add(tables[i].name + ": " + result.error().text());
      continue;
    }
    for (lab::ReproducedRow& row : result->rows) all.rows.push_back(std::move(row));
    for (const std::string& note : result->notes) all.notes.push_back(tables[i].name + ": " + note);
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return all;
}

/// Parses a unit of time. A unit as long as an instruction leaves nothing to plan; a unit far below
/// the instructions' times makes the walk endless.
Result<Seconds> parse_unit(std::string_view text) {
  constexpr Seconds kLeast{1e-5}, kMost{0.01};
  const Seconds unit = HARPE_TRY(parse_seconds(text));
  if (unit >= kLeast && unit <= kMost) return unit;
  return Error::invalid("expected a unit from 0.01 ms to 10 ms, found " + in_quotes(text));
}

Result<Outcome> run_sosp24(const ReproduceArguments& arguments, Console& console) {
  if (!arguments.out.empty()) HARPE_TRY(check_writable(arguments.out));
  const lab::Sosp24Artifact artifact = HARPE_TRY(lab::read_sosp24(arguments.folder));
  const std::vector<lab::ReproducedTable> tables =
      HARPE_TRY(lab::tables_of(artifact, arguments.options));
  for (const std::string& file : artifact.skipped)
    console.warn(file + ": left out, as its name is not WORKLOAD_GPU.csv");
  const lab::ReproducedRows found = HARPE_TRY(computed(tables, console));
  if (!arguments.out.empty()) HARPE_TRY(write_file(arguments.out, csv_of(found.rows)));
  return Outcome{.text = text_of(found, console.width), .json = json_text(json_of(found))};
}

}  // namespace

void add_reproduce_command(Commands& commands) {
  CLI::App& group = commands.add(commands.root(), "reproduce", "recompute published tables",
                                 "harpe lab reproduce sosp24 sosp24/");
  const auto arguments = std::make_shared<ReproduceArguments>();
  CLI::App& app = commands.add(
      group, "sosp24",
      "recompute the tables of Perseus's SOSP'24 evaluation\n"
      "Reads the profiles of Perseus's public data and prints side by side: the published value, "
      "the value by Perseus's published algorithm from the profile alone, and Harpe's value. Parts "
      "that DIRECTORY does not have are left out: emulation/WORKLOAD_GPU.csv, "
      "emulation/published_frontiers/, emulation/published_envpipe.csv, measured/.",
      "harpe lab reproduce sosp24 sosp24/ --out tables.csv\n"
      "harpe lab reproduce sosp24 sosp24/ --json",
      [arguments](Console& console) { return run_sosp24(*arguments, console); });
  app.add_option("DIRECTORY", arguments->folder, "The artifact's data")
      ->type_name("DIRECTORY")
      ->required()
      ->group("Arguments");
  add_parsed(app, "--blocking-power", "WATTS",
             "Power of a waiting GPU, W, for GPUs other than A100 (83.64 W) and A40 (70.38 W)",
             arguments->options.blocking_power, parse_watts);
  add_parsed(app, "--unit", "SECONDS",
             "Unit of time of Perseus's published algorithm, s (default: the unit of the published "
             "frontier; without a frontier 1ms, for A40 0.1ms)",
             arguments->options.unit, parse_unit);
  add_text(app, "--out", "FILE", "Also write all rows to this file (CSV)", arguments->out);
}

}  // namespace harpe::command
