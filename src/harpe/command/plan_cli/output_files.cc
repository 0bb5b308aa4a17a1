#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/temporary_folder.h"
#include "harpe/base/text.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/late_replay.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/plan/frontier/frontier_json.h"
#include "harpe/report/report.h"

namespace harpe::command {
namespace {

/// Returns the command that sets the objective of a job; empty for the default objective.
std::string objective_command(const Objective& objective, const std::string& job) {
  if (objective == Objective{}) return {};
  return "harpe job objective " + job + ' ' + option_text(objective) +
         (objective.is_cap() ? "    # of all pipelines together" : "");
}

/// Returns the next steps: measure one's own profile, observe without setting anything, train, and
/// the bill of a cluster if the job did not request it.
/// \param command  the command line that made the plan
std::vector<ReportStep> next_steps(const PlanJob& job, const Planned& planned,
                                   const std::string& command) {
  const Plan& plan = planned.chosen;
  const std::string train =
      "torchrun --nproc_per_node " + std::to_string(plan.stages) + " train.py";
  const std::string name = "demo";
  std::vector<ReportStep> steps;
  if (plan.synthetic) {
    steps.push_back(
        {"The figures above are from a model. Measure the profile of your own training while it "
         "runs; you need not set up a server:",
         "harpe profile measure -- " + train});
  }
  steps.push_back(
      {"First observe, without setting clocks: work and waiting of each stage, slow GPUs, and the "
       "range of possible savings. This needs a server, but no agent:",
       "harpe serve    # in a separate terminal\nexport HARPE_SERVER=http://127.0.0.1:7787 "
       "HARPE_JOB=" +
           name + "\nHARPE_OBSERVE=1 " + train + "\nharpe job show " + name});
  const std::string objective = objective_command(job.objective, name);
  steps.push_back(
      {"Train under plans, with an agent on each node (sudo harpe agent). A training does not read "
       "this plan: the job measures its own profile and plans for it.",
       train + (objective.empty() ? "" : '\n' + objective) + "\nharpe job watch " + name});
  if (!planned.cluster && !command.empty()) {
    steps.push_back(
        {"Compute the savings on a cluster, with its price of electricity and its grid:",
         command + " --pipelines 16 --price '0.10 EUR/kWh' --carbon DE --pue 1.2"});
  }
  return steps;
}

constexpr const char* kCertificate = "certificate.json";
constexpr const char* kZeusPlan = "freqs_pipeline_00000.py";
constexpr const char* kOwnProfile = "profile.csv";
constexpr std::array kOutputNames = {"plan.json",   "frontier.json", kZeusPlan,
                                     "trace.json",  "frontier.svg",  "pipeline.svg",
                                     "report.html", kOwnProfile,     kCertificate};

/// Returns "earlier-NAME", or the first free name of "earlier-2-NAME" and so on.
std::filesystem::path free_name(const std::filesystem::path& directory, const std::string& name) {
  std::error_code error;
  std::filesystem::path free = directory / ("earlier-" + name);
  for (int i = 2; std::filesystem::exists(free, error); ++i) {
    free = directory / ("earlier-" + std::to_string(i) + "-" + name);
  }
  return free;
}

/// Above this number of instructions a trace is an excerpt: it would have many megabytes, nearly
/// all of them repetitions of the steady state.
constexpr std::size_t kMostTraced = 16'384, kTracedExcerpt = 2'304;

std::size_t traced(const Frontier& frontier, const PlanJob& job) {
  const auto all = static_cast<std::size_t>(frontier.pipeline().instructions());
  return job.whole_trace || all <= kMostTraced ? std::numeric_limits<std::size_t>::max()
                                               : kTracedExcerpt;
}

ReportPoint report_point(const Plan& plan, Joules tight_bound = Joules{0}) {
  return {.time = plan.iteration_time,
          .energy = plan.iteration_energy,
          .lower_bound = plan.lower_bound,
          .plan = plan,
          .tight_bound = tight_bound};
}

ReportInput report_input(const Frontier& frontier, const PlanJob& job, const Planned& planned) {
  ReportInput input;
  const Plan& chosen = planned.chosen;
  input.title = chosen.job.empty() ? without_gz(job.profile).stem().string() : chosen.job;
  input.subtitle = subtitle_of(chosen, job);
  input.all_max = planned.all_max;
  input.all_max_alone = planned.all_max_alone;
  for (std::size_t i = 0; i < planned.along.size(); ++i) {
    const bool is_bounded = i < planned.along_bounds.size();
    input.points.push_back(
        report_point(planned.along[i], is_bounded ? planned.along_bounds[i] : Joules{0}));
  }
  const auto place = std::ranges::find_if(
      input.points, [&](const ReportPoint& point) { return point.time >= chosen.iteration_time; });
  input.chosen = static_cast<std::size_t>(place - input.points.begin());
  if (place != input.points.end() && place->time == chosen.iteration_time) {
    *place = report_point(chosen, planned.tight_bound);
  } else {
    input.points.insert(place, report_point(chosen, planned.tight_bound));
  }
  constexpr double kBoundTolerance = 1e-6;  // less than a pixel and the last digit of a gap
  for (const FrontierPoint& point : frontier.points(kBoundTolerance))
    input.bound.emplace_back(point.time, point.lower_bound);
  for (const FrontierPoint& point : planned.late_bound)
    input.late_bound.emplace_back(point.time, point.lower_bound);
  for (const std::string& sentence : planned.premises)
    input.premises.push_back("Note: " + sentence + ".");
  input.comparisons = rival_comparisons(planned);
  input.facts.emplace_back("Objective", text_of(job.objective));
  input.facts.emplace_back("Fastest possible", seconds_text(frontier.min_time().value));
  input.facts.emplace_back("Least energy at", seconds_text(frontier.least_energy_time().value));
  if (!latency_sentence(job.switch_latency).empty())
    input.facts.emplace_back("Clock changes are", lateness_text(job.switch_latency));
  if (!planned.free_switching && chosen.clock_changes() > 0)
    input.facts.emplace_back("Clock changes", free_changes_words(planned, "the chosen plan"));
  if (planned.free_switching) {
    const Plan& free = *planned.free_switching;
    input.facts.emplace_back(
        "Cost of late clock changes",
        grouped((chosen.iteration_energy - free.iteration_energy).value, 1) + " J (" +
            fixed(100 * (chosen.iteration_energy / free.iteration_energy - 1), 3) +
            " %) against free switching with " + std::to_string(free.clock_changes()) + " changes");
  }
  input.worth =
      cluster_facts(planned.cluster.value_or(carbon::ClusterTerms{}), cluster_costs(planned));
  return input;
}

}  // namespace

std::string subtitle_of(const Plan& plan, const PlanJob& job) {
  std::string text = plan.schedule + ", " + std::to_string(plan.stages) + " stages, " +
                     std::to_string(plan.micro_batches) + " micro-batches";
  if (plan.chunks > 1) text += ", " + std::to_string(plan.chunks) + " chunks a stage";
  if (plan.gpus_per_stage > 1) text += ", " + std::to_string(plan.gpus_per_stage) + " GPUs a stage";
  return text + "; profile " + job.profile.filename().string();
}

PageSource page_source(const Commands& commands, const std::filesystem::path& job_file,
                       const Frontier& frontier, const PlanJob& job, const Planned& planned) {
  constexpr std::array<std::string_view, 1> kOutputs = {"--out"};
  PageSource source{.program = program_version(commands),
                    .command = commands.command_line(kOutputs),
                    .documentation = "man harpe-plan, or harpe plan --help."};
  const auto add = [&](const std::filesystem::path& file) {
    source.inputs.emplace_back(file.filename().string(), file_digest(file));
  };
  if (!job_file.empty() && job_file != job.profile) add(job_file);
  add(job.profile);
  if (job.schedule_is_file) add(job.schedule);
  if (!job.switch_latency.table.empty()) add(job.switch_latency.table);
  if (job.cluster.carbon && !job.cluster.carbon->path.empty()) add(job.cluster.carbon->path);
  source.inputs.emplace_back("all inputs of the plans", inputs_digest(frontier, planned.chosen));
  return source;
}

Result<std::vector<OutputFile>> make_output_files(const Frontier& frontier, const PlanJob& job,
                                                  const Planned& planned, PageSource source) {
  ReportInput input = report_input(frontier, job, planned);
  input.next = next_steps(job, planned, source.command);
  input.source = std::move(source);
  std::vector<Plan> shown;
  std::vector<Joules> tight_bounds;
  for (const ReportPoint& point : input.points) {
    shown.push_back(point.plan);
    if (!planned.along_bounds.empty()) tight_bounds.push_back(point.tight_bound);
  }
  std::vector<OutputFile> files = {{"plan.json", plan_json(planned.chosen)},
                                   {"frontier.json", frontier_json(frontier, shown, tight_bounds)}};
  if (!planned.chosen.has_knobs() && !planned.chosen.runs_in_parts()) {
    files.emplace_back(kZeusPlan, HARPE_TRY(zeus_plan(planned.chosen)));
  }
  files.emplace_back("trace.json", perfetto_trace(planned.chosen, traced(frontier, job)));
  files.emplace_back("frontier.svg", frontier_svg(input));
  files.emplace_back("pipeline.svg", timeline_svg(planned.chosen));
  files.emplace_back("report.html", report_html(input));
  if (planned.has_own_profile) {
    files.emplace_back(kOwnProfile,
                       profile_csv(frontier.profile(), job.fit ? "fitted" : "shared by chunks"));
  }
  if (job.certificate) {
    const Certificate certificate = HARPE_TRY(
        frontier.certificate(planned.chosen.iteration_time, options_of(job, frontier.profile())));
    files.emplace_back(kCertificate, certificate_json(certificate));
  }
  return files;
}

std::vector<std::string> left_out(const Frontier& frontier, const PlanJob& job) {
  std::vector<std::string> sentences;
  const int all = frontier.pipeline().instructions();
  if (traced(frontier, job) == kTracedExcerpt) {
    sentences.push_back("trace.json has the first, a middle and the last " +
                        std::to_string(kTracedExcerpt / 3) + " of " + std::to_string(all) +
                        " instructions: --whole-trace writes all of them");
  }
  if (const int plans = plans_shown(frontier); !job.points && plans < kMostPlansShown) {
    sentences.push_back("report.html and frontier.json have " + std::to_string(plans) +
                        " plans along the frontier: --points " + std::to_string(kMostPlansShown) +
                        " makes as many as for a smaller pipeline");
  }
  return sentences;
}

std::vector<std::string> optional_plan_files() {
  return {kCertificate, kZeusPlan};
}

Result<WrittenFiles> write_output_files(const std::filesystem::path& directory,
                                        const std::vector<OutputFile>& files,
                                        const std::vector<std::string>& optional) {
  std::error_code error;
  const bool is_new = !std::filesystem::exists(directory, error);
  HARPE_TRY(ensure_directory(directory));
  // All files are written to disk beside their places before the first one is moved to its place.
  std::optional<TemporaryFolder> staging;
  const auto give_up = [&](Error why) {
    staging.reset();
    if (is_new) std::filesystem::remove(directory, error);
    return why;
  };
  auto made = TemporaryFolder::make_hidden(directory, "output");
  if (!made.ok()) return give_up(std::move(made).error());
  staging.emplace(std::move(made).take());
  for (const auto& [name, content] : files) {
    const std::filesystem::path path = directory / name;
    if (std::filesystem::is_directory(path, error)) {
      return give_up(Error::io(path.string(), "is a directory, but a file must be written here"));
    }
    if (Status status = write_file(staging->path() / name, content); !status.ok()) {
      Error why = std::move(status).error();
      for (Diagnostic& each : why.diagnostics) each.file = path.string();
      return give_up(std::move(why));
    }
  }
  WrittenFiles done;
  for (const auto& [name, content] : files) {
    const std::filesystem::path path = directory / name;
    std::filesystem::rename(staging->path() / name, path, error);
    if (error) return give_up(Error::io(path.string(), "cannot be written: " + error.message()));
    done.written.push_back(path.string());
  }
  staging.reset();
  for (const std::string& name : optional) {
    const auto is_it = [&](const OutputFile& file) { return file.first == name; };
    const std::filesystem::path earlier = directory / name;
    if (std::ranges::any_of(files, is_it) || !std::filesystem::exists(earlier, error)) continue;
    const std::filesystem::path aside = free_name(directory, name);
    std::filesystem::rename(earlier, aside, error);
    if (error)
      return Error::io(earlier.string(),
                       "belongs to an earlier run and cannot be renamed: " + error.message());
    done.kept_aside.emplace_back(earlier.string(), aside.string());
  }
  return done;
}

std::vector<std::string> output_names(bool has_own_profile) {
  std::vector<std::string> names(kOutputNames.begin(), kOutputNames.end());
  if (!has_own_profile) std::erase(names, kOwnProfile);
  return names;
}

Status spare_inputs(const std::filesystem::path& directory, const PlanJob& job,
                    const std::vector<std::string>& names) {
  std::vector<std::filesystem::path> inputs = {job.profile};
  if (job.schedule_is_file) inputs.emplace_back(job.schedule);
  if (!job.switch_latency.table.empty()) inputs.push_back(job.switch_latency.table);
  if (job.cluster.carbon && !job.cluster.carbon->path.empty())
    inputs.emplace_back(job.cluster.carbon->path);
  for (const std::string& name : names) {
    for (const std::filesystem::path& input : inputs) {
      std::error_code no_file;
      if (!std::filesystem::equivalent(directory / name, input, no_file) || no_file) continue;
      return Error::invalid("--out " + directory.string() + " would overwrite the input " +
                            input.string() + ": choose another folder");
    }
  }
  return ok_status();
}

}  // namespace harpe::command
