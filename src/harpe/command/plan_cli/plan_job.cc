#include "harpe/command/plan_cli/plan_job.h"

#include <algorithm>
#include <system_error>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {
namespace {

using Values = std::span<const std::string>;

Status expect_one(Values values) {
  if (values.size() == 1) return ok_status();
  return Error::invalid("expected one value, found " + std::to_string(values.size()));
}

template <class T>
Status set_parsed(Values values, T& target, Result<T> (*parse)(std::string_view)) {
  HARPE_TRY(expect_one(values));
  target = HARPE_TRY(parse(values.front()));
  return ok_status();
}

template <class T>
Status set_parsed(Values values, std::optional<T>& target, Result<T> (*parse)(std::string_view)) {
  target.emplace();
  return set_parsed(values, *target, parse);
}

template <class T>
Status set_list(Values values, std::vector<T>& target, Result<T> (*parse)(std::string_view)) {
  target.clear();
  Diagnostics diagnostics;
  for (const std::string& text : values) {
    Result<T> value = parse(text);
    if (value.ok()) {
      target.push_back(*value);
    } else {
      diagnostics.add(value.error().diagnostics.front().message);
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

template <class T>
Status set_count(Values values, T& target, int low, int high) {
  HARPE_TRY(expect_one(values));
  target = HARPE_TRY(parse_count(values.front(), low, high));
  return ok_status();
}

Status set_path(Values values, std::filesystem::path& target) {
  HARPE_TRY(expect_one(values));
  if (values.front().empty()) return Error::invalid("expected a file, found an empty name");
  target = values.front();
  return ok_status();
}

bool names_a_generator(std::string_view text) {
  const auto same = [&](const ScheduleGenerator& generator) { return generator.name == text; };
  return std::ranges::any_of(schedule_generators(), same);
}

Status set_schedule(PlanJob& job, Values values) {
  HARPE_TRY(expect_one(values));
  job.schedule = values.front();
  std::error_code no_file;
  // A generator's name has precedence. Other names with a dot or slash, or of a file, are files.
  job.schedule_is_file =
      !names_a_generator(job.schedule) && (job.schedule.find_first_of("./") != std::string::npos ||
                                           std::filesystem::is_regular_file(job.schedule, no_file));
  return ok_status();
}

/// Returns true if the value is `second`, false if it is `first`; otherwise fails.
Result<bool> is_second_word(Values values, const char* first, const char* second) {
  HARPE_TRY(expect_one(values));
  const std::string word = lower(values.front());
  if (word == first || word == second) return word == second;
  return Error::invalid(std::string("expected ") + first + " or " + second + ", found " +
                        in_quotes(values.front()));
}

Status set_chunk_split(PlanJob& job, Values values) {
  job.refuses_chunk_split = HARPE_TRY(is_second_word(values, "equal", "none"));
  return ok_status();
}

Status set_gpu(PlanJob& job, Values values) {
  HARPE_TRY(expect_one(values));
  job.gpu = find_gpu_model(values.front());
  if (job.gpu == nullptr) return Error::invalid(unknown_gpu_model(values.front()));
  return ok_status();
}

Status set_transfer_mode(PlanJob& job, Values values) {
  const bool is_rendezvous = HARPE_TRY(is_second_word(values, "overlapped", "rendezvous"));
  job.transfer_mode = is_rendezvous ? Transfers::Mode::kRendezvous : Transfers::Mode::kOverlapped;
  return ok_status();
}

Status set_objective(PlanJob& job, Values values, const ObjectiveOption& option) {
  const bool is_switch = option.value.empty();
  if (!is_switch) HARPE_TRY(expect_one(values));
  job.objective = HARPE_TRY(option.parse(is_switch ? std::string_view() : values.front()));
  if (job.objective.kind == Objective::Kind::kSlowdown && may_be_fraction(values.front())) {
    const double percent = 100 * job.objective.value;
    job.warnings.push_back("slowdown " + std::string(trim(values.front())) + " is read as " +
                           shortest(percent, 4) + " %; if it is a fraction, write " +
                           shortest(100 * percent, 4) + "%");
  }
  return ok_status();
}

Status set_switch_latency(PlanJob& job, Values values) {
  HARPE_TRY(expect_one(values));
  job.states_latency = true;
  job.switch_latency = {};
  if (is_latency_table(values.front())) return set_path(values, job.switch_latency.table);
  job.switch_latency.by_clock = HARPE_TRY(parse_seconds(values.front()));
  return ok_status();
}

Status set_client(PlanJob& job, Values values) {
  const bool is_harpe = HARPE_TRY(is_second_word(values, "any", "harpe"));
  job.client = is_harpe ? plan::ClockClient::kHarpe : plan::ClockClient::kAny;
  return ok_status();
}

Status set_carbon(PlanJob& job, Values values) {
  HARPE_TRY(expect_one(values));
  job.cluster.carbon = HARPE_TRY(carbon::parse_source(values.front()));
  return ok_status();
}

constexpr int kMaxCount = 1'000'000;
constexpr int kMostWindows = 1'000'000'000;
constexpr std::string_view kInputs = "Pipeline";
constexpr std::string_view kTimes = "Communication and fixed-time instructions";
constexpr std::string_view kObjectives = "Objective (at most one)";
constexpr std::string_view kSwitching = "Clock changes";
constexpr std::string_view kEffort = "Effort";
constexpr std::string_view kCluster = "Cluster: power, emissions and cost under the plan";
constexpr std::string_view kOutputs = "Output";

std::vector<JobKey> keys_of_inputs() {
  return {
      {"profile", "FILE", kInputs,
       "Measured profile: CSV with the columns stage, instruction, frequency (MHz), time (s), "
       "energy (J per GPU), and optionally memory_frequency (MHz), power_limit (W), label",
       false, true, [](PlanJob& job, Values v) { return set_path(v, job.profile); }},
      {"schedule", "SCHEDULE|FILE", kInputs,
       "Name of a schedule (see harpe schedule show --list), or a file: PyTorch CSV, lists as "
       "Python prints them, or JSON (default 1f1b)",
       false, false, set_schedule},
      {"stages", "N", kInputs, "Pipeline stages (default: as in the profile)", false, false,
       [](PlanJob& job, Values v) { return set_count(v, job.stages, 1, kMaxCount); }},
      {"micro-batches", "M", kInputs, "Micro-batches per iteration", false, false,
       [](PlanJob& job, Values v) { return set_count(v, job.micro_batches, 1, kMaxCount); }},
      {"chunks", "V", kInputs, "Model chunks per stage, for interleaved schedules (default 2)",
       false, false, [](PlanJob& job, Values v) { return set_count(v, job.chunks, 1, kMaxCount); }},
      {"chunk-split", "equal|none", kInputs,
       "Use of a profile with rows for whole stages or for another number of chunks. equal: each "
       "chunk takes an equal share of its stage; none: refuse the profile (default equal)",
       false, false, set_chunk_split},
      {"blocking-power", "WATTS[,...]", kInputs,
       "Power of a waiting GPU, W: one value, or one per stage", false, false,
       [](PlanJob& job, Values v) { return set_list(v, job.blocking_power, parse_watts); }},
      {"gpus-per-stage", "G", kInputs, "GPUs that work together on a stage (default 1)", false,
       false,
       [](PlanJob& job, Values v) { return set_count(v, job.gpus_per_stage, 1, kMaxCount); }},
      {"fit", "", kInputs, "Replace noisy measurements by a smooth fit over the clocks", false,
       false, [](PlanJob& job, Values) { return job.fit = true, ok_status(); }},
      {"gpu", "MODEL", kInputs,
       "GPU model for the comparison with one power limit for all GPUs, if the profile has no rows "
       "for power limits (see harpe synth --list)",
       false, false, set_gpu},
      {"transfer-forward", "SECONDS[,...]", kTimes,
       "Transfer time of activations, s: one value for all boundaries between model parts, or one "
       "per boundary",
       false, false,
       [](PlanJob& job, Values v) { return set_list(v, job.transfer_forward, parse_seconds); }},
      {"transfer-backward", "SECONDS[,...]", kTimes,
       "Transfer time of gradients over each boundary, s", false, false,
       [](PlanJob& job, Values v) { return set_list(v, job.transfer_backward, parse_seconds); }},
      {"transfer-mode", "overlapped|rendezvous", kTimes,
       "Kind of transfer. overlapped: the receiver starts later; rendezvous: sender and receiver "
       "block, at SEND and RECV if the schedule has them (default overlapped)",
       false, false, set_transfer_mode},
      {"load", "SECONDS[,...]", kTimes,
       "Data loading before every forward, s: one value, or one per stage (0: none)", false, false,
       [](PlanJob& job, Values v) { return set_list(v, job.load, parse_seconds); }},
      {"reduce", "SECONDS[,...]", kTimes,
       "Gradient reduction between pipelines at the end of each stage, s", false, false,
       [](PlanJob& job, Values v) { return set_list(v, job.reduce, parse_seconds); }},
      {"optimizer", "SECONDS[,...]", kTimes, "Optimizer step at the end of each stage, s", false,
       false, [](PlanJob& job, Values v) { return set_list(v, job.optimizer, parse_seconds); }},
  };
}

std::vector<JobKey> keys_of_objectives() {
  std::vector<JobKey> keys;
  for (const ObjectiveOption& option : objective_options()) {
    keys.push_back({option.name, option.value, kObjectives, option.help, true, false,
                    [&option](PlanJob& job, Values v) { return set_objective(job, v, option); }});
  }
  return keys;
}

std::vector<JobKey> keys_of_search() {
  return {
      {"switch-latency", "SECONDS|FILE", kSwitching,
       "Time until a new clock is in force, s, or a CSV file with this time for each new clock: "
       "frequency (MHz), latency (s), least_latency (s). With a latency, a plan changes clocks "
       "only where this saves energy (default: PROFILE.latency.csv beside PROFILE.csv, as harpe "
       "profile measure writes it, else 0)",
       false, false, set_switch_latency},
      {"client", "any|harpe", kSwitching,
       "Program that will request the clocks. any: each clock is requested when its "
       "instruction begins, and the whole switch latency counts; harpe: Harpe's client requests "
       "clocks ahead, and the remaining latency counts (default any)",
       false, false, set_client},
      {"min-dwell", "SECONDS", kSwitching,
       "Least time between two clock changes of a stage, s (default 0)", false, false,
       [](PlanJob& job, Values v) { return set_parsed(v, job.min_dwell, parse_seconds); }},
      {"quick", "", kEffort, "Plan in milliseconds, at a slightly larger gap", false, false,
       [](PlanJob& job, Values) { return job.quick = true, ok_status(); }},
      {"search-time", "SECONDS", kEffort,
       "Additional search time for a better plan, s; Ctrl-C keeps the best plan so far", false,
       false, [](PlanJob& job, Values v) { return set_parsed(v, job.search_time, parse_seconds); }},
      {"search-windows", "N", kEffort,
       "Number of parts of the plan to search again for a better plan; the result is the same "
       "on every machine",
       false, false,
       [](PlanJob& job, Values v) { return set_count(v, job.search_windows, 1, kMostWindows); }},
  };
}

std::vector<JobKey> keys_of_cluster_and_output() {
  return {
      {"pipelines", "N", kCluster, "Pipelines that train in parallel (default 1)", false, false,
       [](PlanJob& job, Values v) { return set_count(v, job.cluster.pipelines, 1, kMaxCount); }},
      {"hours", "HOURS", kCluster,
       "Training time of the cluster under the plan, h, or with a unit, such as 30d (default 720: "
       "a month). Alternatives to the plan run the same iterations",
       false, false,
       [](PlanJob& job, Values v) { return set_parsed(v, job.cluster.time, parse_hours); }},
      {"price", "PRICE", kCluster,
       "Price of electricity: 0.10/kWh, 0.10 EUR/kWh, 95 EUR/MWh or 12 ct/kWh", false, false,
       [](PlanJob& job, Values v) {
         return set_parsed(v, job.cluster.price, carbon::parse_energy_price);
       }},
      {"carbon", "ZONE|SOURCE", kCluster,
       "Carbon intensity of electricity: a country's code (its yearly mean), a number in g/kWh, "
       "file:PATH (its mean), or a provider such as electricity-maps:DE (the mean of the last "
       "--hours, at most 31 days)",
       false, false, set_carbon},
      {"pue", "NUMBER", kCluster,
       "Energy of the site divided by the energy of its computers, such as 1.2 (default 1)", false,
       false,
       [](PlanJob& job, Values v) { return set_parsed(v, job.cluster.pue, carbon::parse_pue); }},
      {"host-power", "WATTS", kCluster,
       "Power of a node without its GPUs, W: CPUs, memory, network, fans (default 0)", false, false,
       [](PlanJob& job, Values v) { return set_parsed(v, job.cluster.host_power, parse_watts); }},
      {"gpus-per-node", "N", kCluster, "GPUs per node, for --host-power (default 8)", false, false,
       [](PlanJob& job, Values v) {
         return set_count(v, job.cluster.gpus_per_node, 1, kMaxCount);
       }},
      {"out", "DIR", kOutputs, "Folder for all files of the result (default: only print a summary)",
       false, true,
       [](PlanJob& job, Values v) {
         job.out.emplace();
         return set_path(v, *job.out);
       }},
      {"points", "N", kOutputs,
       "Plans along the frontier in the report (default 50, fewer above 6,000 instructions)", false,
       false, [](PlanJob& job, Values v) { return set_count(v, job.points, 0, 1000); }},
      {"certificate", "", kOutputs, "Also write certificate.json, for harpe verify", false, false,
       [](PlanJob& job, Values) { return job.certificate = true, ok_status(); }},
      {"whole-trace", "", kOutputs,
       "Write every instruction to trace.json. By default, the trace of more than 16,384 "
       "instructions has only the first, a middle and the last part of the iteration",
       false, false, [](PlanJob& job, Values) { return job.whole_trace = true, ok_status(); }},
      {"job", "NAME", kOutputs, "Name of the job in plans and reports", false, false,
       [](PlanJob& job, Values v) -> Status {
         HARPE_TRY(expect_one(v));
         return job.name = v.front(), ok_status();
       }},
  };
}

void apply(const JobEntry& entry, PlanJob& job, Error& error) {
  const Status status = entry.key->set(job, entry.values);
  if (status.ok()) return;
  for (const Diagnostic& diagnostic : status.error().diagnostics) {
    const std::string key = (entry.file.empty() ? "--" : "") + std::string(entry.key->name);
    error.diagnostics.push_back({.file = entry.file,
                                 .line = entry.line,
                                 .column = entry.column,
                                 .message = key + ": " + diagnostic.message});
  }
}

/// Adds an error for each additional objective: the file and the options may each have one.
void check_objectives(const std::vector<JobEntry>& entries, Error& error) {
  const JobEntry* first = nullptr;
  for (const JobEntry& entry : entries) {
    if (!entry.key->is_objective) continue;
    if (first == nullptr) {
      first = &entry;
      continue;
    }
    const std::string dashes = entry.file.empty() ? "--" : "";
    error.diagnostics.push_back({.file = entry.file,
                                 .line = entry.line,
                                 .column = entry.column,
                                 .message = dashes + std::string(entry.key->name) + " and " +
                                            dashes + std::string(first->key->name) +
                                            " exclude each other: give one objective"});
  }
}

void check_complete(const PlanJob& job, Error& error) {
  if (job.profile.empty()) error.diagnostics.push_back({.message = "--profile is missing"});
  if (!job.schedule_is_file && !job.micro_batches) {
    error.diagnostics.push_back({.message = "--micro-batches is missing"});
  }
  if (job.certificate && !job.out) {
    error.diagnostics.push_back({.message = "--certificate needs --out, the folder for the file"});
  }
  if (!job.searches_on()) return;
  if (job.quick) {
    error.diagnostics.push_back(
        {.message = "--quick and a longer search exclude each other: give one of them"});
  }
  if (job.min_dwell > 0_s) {
    error.diagnostics.push_back(
        {.message = "--search-time and --search-windows are for plans without a minimum dwell: "
                    "omit them, or --min-dwell"});
  }
}

}  // namespace

const std::vector<JobKey>& job_keys() {
  static const std::vector<JobKey> kKeys = [] {
    std::vector<JobKey> keys = keys_of_inputs();
    for (const auto& part : {keys_of_objectives(), keys_of_search(), keys_of_cluster_and_output()})
      keys.insert(keys.end(), part.begin(), part.end());
    return keys;
  }();
  return kKeys;
}

namespace {

PlanJob apply_all(const std::vector<JobEntry>& file, const std::vector<JobEntry>& options,
                  Error& error) {
  PlanJob job;
  check_objectives(file, error);
  check_objectives(options, error);
  const auto is_objective = [](const JobEntry& entry) { return entry.key->is_objective; };
  const bool objective_replaced = std::ranges::any_of(options, is_objective);
  for (const JobEntry& entry : file) {
    // An option replaces the same key of the file. Any objective replaces every objective.
    const bool replaced =
        (entry.key->is_objective && objective_replaced) ||
        std::ranges::any_of(options, [&](const JobEntry& o) { return o.key == entry.key; });
    if (!replaced) apply(entry, job, error);
  }
  for (const JobEntry& entry : options) apply(entry, job, error);
  return job;
}

}  // namespace

Result<PlanJob> make_job(const std::vector<JobEntry>& file, const std::vector<JobEntry>& options) {
  Error error{ErrorCode::kInvalidInput, {}};
  PlanJob job = apply_all(file, options, error);
  const auto named = [](const std::vector<JobEntry>& entries, std::string_view name) {
    return std::ranges::any_of(entries, [&](const JobEntry& e) { return e.key->name == name; });
  };
  if (error.diagnostics.empty() || (!named(file, "profile") && !named(options, "profile"))) {
    check_complete(job, error);
  }
  if (!error.diagnostics.empty()) return error;
  return job;
}

Result<PlanJob> make_part_of_job(const std::vector<JobEntry>& file,
                                 const std::vector<JobEntry>& options) {
  Error error{ErrorCode::kInvalidInput, {}};
  PlanJob job = apply_all(file, options, error);
  if (!error.diagnostics.empty()) return error;
  return job;
}

}  // namespace harpe::command
