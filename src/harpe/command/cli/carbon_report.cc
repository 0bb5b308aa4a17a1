#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "harpe/base/digest.h"
#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/command/carbon_cli/carbon_inventory.h"
#include "harpe/command/carbon_cli/inventory_view.h"
#include "harpe/command/carbon_cli/ledger_runs.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/input/input_file.h"
#include "harpe/report/report.h"

namespace harpe::command {
namespace {

struct ReportArguments {
  std::vector<std::string> files, jobs;
  ServerArguments server;
  SourceArguments source, contract;
  InventoryTerms terms;
  std::optional<carbon::UtcTime> from, to;
  std::string csv, html;

  bool asks_server() const { return !server.url.empty() || !jobs.empty(); }
};

Result<carbon::SourceSpecification> parse_into(SourceArguments& arguments,
                                               const std::string& text) {
  arguments.text = text;
  return carbon::parse_source(text);
}

Result<InventoryBy> parse_by(const std::string& text) {
  if (text == "job") return InventoryBy::kJob;
  if (text == "run") return InventoryBy::kRun;
  if (text == "user") return InventoryBy::kUser;
  return Error::invalid("expected job, run or user, found " + in_quotes(text));
}

Result<std::optional<double>> parse_units(const std::string& text) {
  const auto number = parse_number(text);
  if (number && *number > 0) return number;
  return Error::invalid("expected a number above 0, found " + in_quotes(text));
}

/// Fails if a unit that ledgers do not count has no number.
Status check_unit(const FunctionalUnit& unit) {
  if (unit.count || std::ranges::count(counted_units(), unit.name) > 0) return ok_status();
  return Error::invalid("--per " + unit.name + " needs --units, the number of these units; " +
                        joined(counted_units()) + " are counted automatically");
}

using Inputs = decltype(PageSource::inputs);

Status read_runs_of_files(const ReportArguments& arguments, std::vector<ReadRun>& read,
                          Inputs& inputs) {
  Error all{ErrorCode::kInvalidInput, {}};
  for (const std::string& file : arguments.files) {
    const std::string text = HARPE_TRY(read_input_file(file));
    inputs.emplace_back(file, digest_text(fnv1a(text)));
    Result<std::vector<carbon::LedgerRun>> runs = carbon::parse_ledger(text, file);
    if (!runs.ok()) {
      for (const Diagnostic& one : runs.error().diagnostics) all.diagnostics.push_back(one);
      continue;
    }
    for (carbon::LedgerRun& run : *runs) read.push_back({.run = std::move(run), .from = file});
  }
  if (!all.diagnostics.empty()) return all;
  return ok_status();
}

Result<std::vector<std::string>> jobs_to_ask(const ReportArguments& arguments, JobServer& server) {
  if (!arguments.jobs.empty()) return arguments.jobs;
  const Json all = HARPE_TRY(ask_for_pages(server, "/v1/jobs?activity=active,idle,ended"));
  std::vector<std::string> jobs;
  for (const Json& job : all["jobs"])
    if (std::string id = text_in(job, "id"); !id.empty()) jobs.push_back(std::move(id));
  return jobs;
}

Status read_runs_of_server(const ReportArguments& arguments, std::vector<ReadRun>& read,
                           Inputs& inputs) {
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  for (const std::string& job : HARPE_TRY(jobs_to_ask(arguments, server))) {
    const std::string text = HARPE_TRY(ask_of_job(server, job, "GET", "/energy"));
    inputs.emplace_back("job " + job, digest_text(fnv1a(text)));
    for (carbon::LedgerRun& run : HARPE_TRY(carbon::parse_ledger(text, "job " + job))) {
      read.push_back({.run = std::move(run), .from = "the server"});
    }
  }
  return ok_status();
}

FindIntensity finder(const SourceArguments& arguments, carbon::CarbonSource& source) {
  return [&arguments, &source](carbon::UtcTime from, carbon::UtcTime to) {
    return carbon::accounting_intensity(source, arguments.source, from, to);
  };
}

Result<CarbonInventory> inventory_of(const ReportArguments& arguments, Inputs& inputs) {
  std::vector<ReadRun> read;
  HARPE_TRY(check_unit(arguments.terms.unit));
  HARPE_TRY(read_runs_of_files(arguments, read, inputs));
  if (arguments.asks_server()) HARPE_TRY(read_runs_of_server(arguments, read, inputs));
  CountedRuns counted = count_once(std::move(read));
  const carbon::UtcTime from = arguments.from.value_or(carbon::UtcTime{0});
  const carbon::UtcTime to = arguments.to.value_or(carbon::UtcTime{7'258'118'400});
  for (carbon::LedgerRun& run : counted.runs) run.ledger = run.ledger.part(from, to);
  if (arguments.from || arguments.to) {
    std::erase_if(counted.runs, [](const carbon::LedgerRun& run) { return run.ledger.empty(); });
  }
  const auto source = HARPE_TRY(open_source(arguments.source));
  std::unique_ptr<carbon::CarbonSource> contract;
  FindIntensity find_contract;
  if (!arguments.contract.text.empty()) {
    contract = HARPE_TRY(open_source(arguments.contract));
    find_contract = finder(arguments.contract, *contract);
  }
  CarbonInventory inventory = HARPE_TRY(make_inventory(
      std::move(counted.runs), arguments.terms, finder(arguments.source, *source), find_contract));
  inventory.source = arguments.source.text;
  inventory.contract_source = arguments.contract.text;
  inventory.notes.insert(inventory.notes.end(), counted.notes.begin(), counted.notes.end());
  return inventory;
}

Result<Outcome> report(const ReportArguments& arguments, const Commands& commands,
                       Console& console) {
  if (arguments.files.empty() && !arguments.asks_server()) {
    return Error::invalid("no input: give reports of `harpe run --out`, or --server URL");
  }
  constexpr std::array<std::string_view, 2> kOutputs = {"--csv", "--html"};
  PageSource source{.program = program_version(commands),
                    .command = commands.command_line(kOutputs),
                    .documentation = "man harpe-carbon-report, or harpe carbon report --help."};
  const CarbonInventory inventory = HARPE_TRY(inventory_of(arguments, source.inputs));
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, inventory_csv(inventory)));
  if (!arguments.html.empty()) {
    HARPE_TRY(write_file(arguments.html, inventory_page(inventory, source)));
  }
  const int columns = console.colour_out ? terminal_size(STDOUT_FILENO).columns : 0;
  return Outcome{.text = inventory_text(inventory, columns, console.colour_out),
                 .json = inventory_json(inventory)};
}

void add_term_options(CLI::App& app, ReportArguments& arguments) {
  add_parsed(app, "--market-based", "SOURCE",
             "Intensity of a contract, listed beside the grid's intensity, never in place of it",
             arguments.contract.source, [&contract = arguments.contract](const std::string& text) {
               return parse_into(contract, text);
             });
  add_parsed(app, "--pue", "NUMBER",
             "Energy of the site divided by the energy of its computers, such as 1.2",
             arguments.terms.account.pue, carbon::parse_pue);
  add_parsed(app, "--embodied", "KG/LIFETIME",
             "Emissions of making each GPU, and its years of use: 150kg/5y",
             arguments.terms.account.embodied, parse_embodied);
  add_parsed(app, "--by", "job|run|user", "Grouping of the rows (default: job)", arguments.terms.by,
             parse_by);
  add_text(app, "--per", "UNIT",
           "Unit of SCI: job, run, user, iteration, token (if the jobs' terms of carbon control "
           "have tokens_per_iteration), device-hour, or your own unit with --units (default: run)",
           arguments.terms.unit.name);
  FunctionalUnit& unit = arguments.terms.unit;
  add_parsed(app, "--units", "N", "Number of units in all runs together", unit.count, parse_units);
  add_parsed(app, "--tokens", "N", "Same as --per token --units N", unit.count,
             [&unit](const std::string& text) {
               unit.name = "token";
               return parse_units(text);
             });
}

}  // namespace

void add_carbon_report_command(Commands& commands) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App& app = commands.add(
      *commands.root().get_subcommand("carbon"), "report",
      "energy and emissions of commands and jobs, for reports\n"
      "Reads files of `harpe run --out`, saved answers of GET /v1/jobs/ID/energy, or the energy of "
      "jobs from a server, and computes grams from the intensity of each interval. The result has "
      "kilowatt-hours, operational and embodied CO2eq, SCI (ISO/IEC 21031:2024), and a statement "
      "of the method. Providers revise their values: the same files may give other grams later. A "
      "run that is given twice counts once.",
      "harpe carbon report run1.json run2.json --carbon uk:13 --pue 1.2\n"
      "harpe carbon report --server http://head:7787 --carbon DE --html jobs.html\n"
      "harpe carbon report run.json --carbon 302.5 --embodied 150kg/5y --tokens 3e9",
      [arguments, &commands](Console& console) { return report(*arguments, commands, console); });
  app.add_option("FILE", arguments->files, "Reports of commands and energy of jobs, as JSON")
      ->type_name("FILE")
      ->group("Arguments");
  add_parsed(
      app, "--carbon", "SOURCE",
      "Intensity of the grid, location-based, as for harpe carbon now: see docs/carbon-sources.md",
      arguments->source.source,
      [&source = arguments->source](const std::string& text) { return parse_into(source, text); })
      ->required();
  app.add_flag_function(
      "--offline",
      [arguments](std::int64_t) { arguments->source.offline = arguments->contract.offline = true; },
      "Use only the cache and files; query no provider");
  add_term_options(app, *arguments);
  add_parsed(app, "--from", "TIME", "Only intervals that begin at TIME (UTC) or later",
             arguments->from, parse_time_option);
  add_parsed(app, "--to", "TIME", "Only intervals that begin before TIME (UTC)", arguments->to,
             parse_time_option);
  add_text(app, "--csv", "FILE", "The table as CSV, with the method as comments", arguments->csv);
  add_text(app, "--html", "FILE", "HTML page of energy and grams over time", arguments->html);
  add_server_options(app, arguments->server);
  app.get_option("--server")
      ->description("Also report the jobs of this server (with --job, default: HARPE_SERVER)");
  app.add_option("--job", arguments->jobs, "Only these jobs of the server")->type_name("NAME");
}

}  // namespace harpe::command
