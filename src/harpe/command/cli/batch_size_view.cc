#include "harpe/command/cli/batch_size_view.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

constexpr std::size_t kTrialsShown = 10;

Json object_in(std::string_view text) {
  Json document = json_or_discarded(text);
  return document.is_object() ? document : Json::object();
}

/// Returns a value without characters that would move a terminal's cursor.
std::string shown(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  if (value.is_null()) return "-";
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

/// Returns joules in a unit with few digits.
std::string cost_text(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  if (!value.is_number()) return "-";
  const double joules = value.get<double>();
  if (std::abs(joules) >= 1e7) return fixed(joules / 1e6, 2) + " MJ";
  if (std::abs(joules) >= 1e4) return fixed(joules / 1e3, 1) + " kJ";
  return fixed(joules, 0) + " J";
}

std::string result_text(const Json& trial) {
  const std::string status = shown(trial, "status");
  if (status == "dispatched") return "running";
  if (status == "failed") return "failed";
  return trial.value("converged", false) ? "reached the target" : "did not reach it";
}

}  // namespace

std::string recurring_jobs_table(std::string_view text, bool coloured) {
  const Json document = object_in(text);
  const Json jobs = document.value("jobs", Json::array());
  if (jobs.empty()) {
    return "no recurring jobs yet; docs/server.md describes how a training script registers one\n";
  }
  Table table = Table::of({"JOB", "GPU", "SIZES", "TRIALS", "RUNNING", "CHEAPEST", "COST"}, 2);
  for (const Json& job : jobs) {
    table.add({shown(job, "id"), shown(job, "gpu_model"), shown(job, "batch_sizes"),
               shown(job, "trials"), shown(job, "running"), shown(job, "cheapest_batch_size"),
               cost_text(job, "least_cost_j")});
  }
  return table.text(coloured);
}

std::string recurring_job_view(std::string_view text, bool coloured) {
  const Json status = object_in(text);
  const Json job = status.value("job", Json::object());
  const Json cheapest = status.value("cheapest", Json());
  std::string view = shown(status, "id") + ": " + shown(job, "number_of_gpus") + " x " +
                     shown(job, "gpu_model") + ", eta " + shown(job, "eta_knob") + ", target " +
                     shown(job, "target_metric") + ", chosen by " +
                     job.value("algorithm", std::string("zeus")) + "\n";
  if (cheapest.is_object()) {
    view += "cheapest: batch size " + shown(cheapest, "batch_size") + " at " +
            cost_text(cheapest, "cost") + " (trial " + shown(cheapest, "trial_number") + ")\n";
  } else {
    view += "no trial has reached the target yet\n";
  }
  if (status.value("reports_refused", 0) > 0) {
    view += "reports refused: " + shown(status, "reports_refused") +
            " (harpe batch-size log shows the reasons)\n";
  }
  Table sizes = Table::of({"BATCH SIZE", "RESULTS", "REACHED", "MEAN COST"}, 0);
  for (const Json& size : status.value("batch_sizes", Json::array())) {
    const bool is_cheapest =
        cheapest.is_object() && size.value("batch_size", 0) == cheapest.value("batch_size", 0);
    sizes.add({shown(size, "batch_size"), shown(size, "results"), shown(size, "converged"),
               cost_text(size, "mean_cost")},
              is_cheapest);
  }
  view += "\n" + sizes.text(coloured);
  const Json trials = status.value("trials", Json::array());
  if (trials.empty()) return view;
  Table newest = Table::of({"TRIAL", "BATCH SIZE", "EPOCHS", "TIME", "COST", "RESULT"}, 0);
  for (std::size_t i = trials.size() - std::min(trials.size(), kTrialsShown); i < trials.size();
       ++i) {
    const Json& trial = trials[i];
    newest.add({shown(trial, "trial_number"), shown(trial, "batch_size"), shown(trial, "epochs"),
                seconds_text(trial.value("time", 0.0)), cost_text(trial, "cost"),
                result_text(trial)});
  }
  return view + "\n" + newest.text(coloured);
}

std::string trial_line(std::string_view text) {
  const Json trial = object_in(text);
  return "trial " + shown(trial, "trial_number") + " trains with batch size " +
         shown(trial, "batch_size") + ": " + shown(trial, "why") + "\n";
}

std::string verdict_line(std::string_view text) {
  const Json verdict = object_in(text);
  const std::string reason = shown(verdict, "reason"), cost = cost_text(verdict, "cost");
  if (reason == "go_on") return "continue; cost so far " + cost + "\n";
  if (reason == "reached") return "stop: the target is reached, at a cost of " + cost + "\n";
  if (reason == "too_costly") {
    return "stop: the cost of " + cost + " is above the bound of " + cost_text(verdict, "bound") +
           "\n";
  }
  if (reason == "max_epochs") return "stop: that was the last epoch, without the target\n";
  if (reason == "will_not_reach") {
    return "stop: its metric so far shows that the trial will not reach the target within its "
           "maximum number of epochs; cost " +
           cost + "\n";
  }
  return "stop: the trial has already ended\n";
}

}  // namespace harpe::command
