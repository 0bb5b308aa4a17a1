#include "harpe/frontier/verify.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/command/json_output.h"
#include "harpe/command/options.h"
#include "harpe/command/quantity_text.h"
#include "harpe/plan_cli/given_profile.h"
#include "harpe/plan_cli/plan_cli.h"
#include "harpe/plan_cli/synthetic_line.h"
#include "harpe/plan_cli/table.h"

namespace harpe {
namespace {

struct VerifyArguments {
  std::string plan, profile, schedule, certificate;
  std::optional<double> max_gap;  ///< %
};

Result<std::optional<Certificate>> read_certificate(const std::string& path) {
  if (path.empty()) return std::optional<Certificate>();
  const std::string text = HARPE_TRY(read_file(path));
  Certificate certificate = HARPE_TRY(parse_certificate_json(text, path));
  return std::optional(std::move(certificate));
}

/// The schedule of a file; nothing where the plan names one that can be generated.
Result<std::optional<Schedule>> read_given_schedule(const VerifyArguments& arguments,
                                                    const Result<Plan>& plan) {
  if (!arguments.schedule.empty()) {
    Schedule schedule = HARPE_TRY(read_schedule(arguments.schedule));
    return std::optional(std::move(schedule));
  }
  const auto is_of_plan = [&](const ScheduleGenerator& g) { return g.name == plan->schedule; };
  if (!plan.ok() || std::ranges::any_of(schedule_generators(), is_of_plan)) {
    return std::optional<Schedule>();
  }
  Error error =
      Error::invalid("it follows " + in_quotes(plan->schedule) +
                     ", which is no schedule known by name: give its file with --schedule");
  error.diagnostics[0].file = arguments.plan;
  return error;
}

/// "; is out/certificate.json its certificate? ..." where there is one.
std::string certificate_beside(const std::string& plan) {
  const std::filesystem::path beside =
      std::filesystem::path(plan).replace_filename("certificate.json");
  std::error_code no_file;
  if (!std::filesystem::is_regular_file(beside, no_file)) return {};
  return " (--certificate " + beside.string() + " checks it)";
}

Result<Outcome> run_verify(const VerifyArguments& arguments, Console& console) {
  const std::string file = plan_file(arguments.plan);
  const Result<Plan> plan = read_plan(file);
  const Result<Profile> profile = given_profile(arguments.profile, console);
  const Result<std::optional<Schedule>> schedule = read_given_schedule(arguments, plan);
  const Result<std::optional<Certificate>> certificate = read_certificate(arguments.certificate);
  Error error{ErrorCode::kInvalidInput, {}};
  const auto collect = [&error](const auto& result) {
    if (result.ok()) return;
    if (error.diagnostics.empty()) error.code = result.error().code;
    const auto& diagnostics = result.error().diagnostics;
    error.diagnostics.insert(error.diagnostics.end(), diagnostics.begin(), diagnostics.end());
  };
  collect(plan);
  collect(profile);
  collect(schedule);
  collect(certificate);
  if (!error.diagnostics.empty()) return error;

  const Certificate* proof = *certificate ? &**certificate : nullptr;
  Verification found = *schedule ? verify_plan(*plan, **schedule, *profile, proof)
                                 : verify_plan(*plan, *profile, proof);
  const double gap = 100 * plan->gap();
  if (arguments.max_gap && gap > *arguments.max_gap) {
    found.diagnostics.push_back("the gap is " + fixed(gap, 4) + " %, over " +
                                shortest(*arguments.max_gap) + " %");
  }
  if (!found.diagnostics.empty()) {
    Error refused{ErrorCode::kRefused, {}};
    for (const std::string& one : found.diagnostics) {
      refused.diagnostics.push_back({.file = arguments.plan, .message = one});
    }
    return refused;
  }

  const bool synthetic = plan->synthetic || profile->is_synthetic();
  Json document = {{"accepted", true},
                   {"synthetic", synthetic},
                   {"iteration_time_s", plan->iteration_time.value},
                   {"makespan_s", found.makespan.value},
                   {"iteration_energy_j", found.energy.value},
                   {"lower_bound_j", plan->lower_bound.value},
                   {"gap_percent", gap}};
  document["proven_bound_j"] = found.proven_bound ? Json(found.proven_bound->value) : Json();
  std::string text = synthetic_line(synthetic, console.colour_out) +
                     painted("accepted", Paint::kGreen, console.colour_out) + ": " +
                     seconds_text(found.makespan.value) + ", " + grouped(found.energy.value, 1) +
                     " J, gap " + fixed(gap, 4) + " %\n";
  text += found.proven_bound
              ? "the certificate proves that no plan ending by then needs less than " +
                    grouped(found.proven_bound->value, 1) + " J, " +
                    fixed(100 * (found.energy / *found.proven_bound - 1), 4) + " % below this one\n"
              : "no certificate given: the plan's lower bound is its own word" +
                    certificate_beside(file) + "\n";
  return Outcome{.text = text, .json = json_text(document)};
}

}  // namespace

void add_verify_command(Commands& commands) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App& app = commands.add(
      commands.root(), "verify",
      "check a plan, and its certificate, without running the solver\n"
      "Generates the schedule by its name, or reads it, and works out from it alone what waits for "
      "what. Recomputes with that and the profile what the plan claims: order, operating points, "
      "starts, time, energy; and from the certificate the lower bound. Exits 1 when anything does "
      "not hold.",
      "harpe verify plan/plan.json --profile gpt3.csv\n"
      "harpe verify plan/plan.json --profile gpt3.csv \\\n"
      "    --certificate plan/certificate.json\n"
      "harpe verify plan/plan.json --profile gpt3.csv --schedule my_schedule.csv",
      [arguments](Console& console) { return run_verify(*arguments, console); });
  app.add_option("PLAN", arguments->plan, "Plan to check (harpe.plan/1)")
      ->type_name("plan.json")
      ->required()
      ->group("Arguments");
  add_text(app, "--profile", "FILE", "Profile that the plan was made from", arguments->profile)
      ->required();
  add_text(app, "--schedule", "FILE",
           "Schedule that the plan was made for, where that came from a file: PyTorch CSV or JSON",
           arguments->schedule);
  add_text(app, "--certificate", "FILE", "Certificate of the plan's lower bound",
           arguments->certificate);
  add_parsed(app, "--max-gap", "PERCENT",
             "Refuse plans further above their lower bound, %; needs --certificate, as the plan's "
             "own bound proves nothing",
             arguments->max_gap, [](std::string_view text) { return parse_percent(text); })
      ->needs("--certificate");
}

}  // namespace harpe
