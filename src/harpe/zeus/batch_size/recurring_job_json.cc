#include <algorithm>
#include <cmath>
#include <limits>

#include "harpe/base/json_fields.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::zeus {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kMostCost = 1e18;  // J
constexpr int kLargest = std::numeric_limits<int>::max();
const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> kNames{"zeus", "harpe"};
  return kNames;
}

bool is_null(Fields& fields, std::string_view key) {
  const JsonValue* value = fields.any(key);
  return value != nullptr && value->type == JsonValue::Type::kNull;
}

void read_batch_sizes(Fields& fields, RecurringJob& job) {
  const JsonValue* list = fields.any("batch_sizes");
  const bool is_list = list != nullptr && list->type == JsonValue::Type::kArray &&
                       !list->items.empty() &&
                       list->items.size() <= RecurringJob::kMostExplorations;
  if (!is_list) {
    return fields.error("batch_sizes", "expected a list of 1 to " +
                                           std::to_string(RecurringJob::kMostExplorations) +
                                           " batch sizes");
  }
  for (const JsonValue& item : list->items) {
    if (!item.is_integer || item.integer < 1 || item.integer > kLargest) {
      return fields.error("batch_sizes", "a batch size must be a whole number from 1");
    }
    job.batch_sizes.push_back(static_cast<int>(item.integer));
  }
  std::ranges::sort(job.batch_sizes);
  const auto [again, end] = std::ranges::unique(job.batch_sizes);
  job.batch_sizes.erase(again, end);
}

void read_names(Fields& fields, RecurringJob& job) {
  if (!is_null(fields, "job_id")) job.id = short_text(fields, "job_id");
  job.id_prefix = needed(fields, "job_id_prefix", fields.text("job_id_prefix"));
  if (job.id_prefix.size() > kLongestText) fields.error("job_id_prefix", "is too long");
  if (!job.id.empty() && !job.id.starts_with(job.id_prefix)) {
    fields.error("job_id", "must begin with job_id_prefix");
  }
  job.gpu_model = needed(fields, "gpu_model", fields.text("gpu_model"));
  const bool is_given = fields.any("gpu_model") != nullptr;
  if (is_given && (job.gpu_model.empty() || job.gpu_model.size() > kLongestText)) {
    fields.error("gpu_model", "must have 1 to " + std::to_string(kLongestText) + " bytes");
  }
}

void read_training(Fields& fields, RecurringJob& job) {
  read_batch_sizes(fields, job);
  job.default_batch_size = static_cast<int>(
      needed(fields, "default_batch_size", fields.integer("default_batch_size", 1, kLargest)));
  if (!job.batch_sizes.empty() && job.default_batch_size > 0 &&
      !std::ranges::binary_search(job.batch_sizes, job.default_batch_size)) {
    fields.error("default_batch_size", "must be one of batch_sizes");
  }
  read_number(fields, "target_metric", -kMostCost, kMostCost, job.target_metric);
  job.higher_is_better = fields.boolean("higher_is_better_metric").value_or(job.higher_is_better);
  read_count(fields, "max_epochs", 1, kLargest, job.max_epochs);
  const auto max_power = fields.number("max_power", 0, kMostPower);
  job.max_power.value = needed(fields, "max_power", max_power);
  if (max_power == 0.0) fields.error("max_power", "must be above 0 W");
  job.gpus = static_cast<int>(
      needed(fields, "number_of_gpus", fields.integer("number_of_gpus", 1, kLargest)));
}

void read_choice(Fields& fields, RecurringJob& job) {
  read_number(fields, "eta_knob", 0, 1, job.eta);
  if (is_null(fields, "beta_knob")) {
    job.beta.reset();
  } else if (const auto beta = fields.number("beta_knob", 0, kMostCost)) {
    job.beta = beta;
    if (*beta == 0) fields.error("beta_knob", "must be above 0, or null");
  }
  read_count(fields, "num_pruning_rounds", 0, kLargest, job.pruning_rounds);
  const double explorations =
      static_cast<double>(job.batch_sizes.size()) * static_cast<double>(job.pruning_rounds);
  if (explorations > RecurringJob::kMostExplorations) {
    fields.error("num_pruning_rounds", "times the number of batch_sizes may be " +
                                           std::to_string(RecurringJob::kMostExplorations) +
                                           " at most");
  }
  read_count(fields, "window_size", 0, kLargest, job.window);
  read_number(fields, "mab_prior_mean", -kMostCost, kMostCost, job.prior_mean);
  read_number(fields, "mab_prior_precision", 0, kMostCost, job.prior_precision);
  read_count(fields, "mab_num_explorations", 0, kLargest, job.explorations);
  if (!is_null(fields, "mab_seed")) {
    job.seed = fields.integer("mab_seed", std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::int64_t>::max());
  }
  if (const auto algorithm = fields.word("algorithm", algorithm_names())) {
    job.algorithm = static_cast<BatchSizeAlgorithm>(*algorithm);
  }
  read_count(fields, "recurrences", 0, kLargest, job.recurrences);
}

void read_known_epochs(Fields& fields, RecurringJob& job) {
  if (fields.any("known_epochs") == nullptr) return;
  for (const JsonValue* value : fields.objects("known_epochs")) {
    KnownEpochs known;
    const Status read =
        read_object(*value, "known_epochs", "", Unknown::kRefused, [&](Fields& one, Diagnostics&) {
          known.batch_size =
              static_cast<int>(needed(one, "batch_size", one.integer("batch_size", 1, kLargest)));
          known.epochs = needed(one, "epochs", one.number("epochs", 1, kLargest));
          read_count(one, "runs", 1, kLargest, known.runs);
          known.converged = one.boolean("converged").value_or(true);
          read_number(one, "epoch_cost", 0, kMostEnergy, known.epoch_cost);
        });
    if (!read.ok()) fields.error("known_epochs", read.error().text());
    job.known_epochs.push_back(known);
  }
  if (job.known_epochs.size() > RecurringJob::kMostKnown) {
    fields.error("known_epochs", "may be " + std::to_string(RecurringJob::kMostKnown) + " at most");
  }
}

}  // namespace

std::string recurring_job_json(const RecurringJob& job) {
  OrderedJson document{
      {"job_id", job.id},
      {"job_id_prefix", job.id_prefix},
      {"batch_sizes", job.batch_sizes},
      {"default_batch_size", job.default_batch_size},
      {"eta_knob", job.eta},
      {"beta_knob", job.beta ? OrderedJson(*job.beta) : OrderedJson()},
      {"target_metric", job.target_metric},
      {"higher_is_better_metric", job.higher_is_better},
      {"max_epochs", job.max_epochs},
      {"num_pruning_rounds", job.pruning_rounds},
      {"window_size", job.window},
      {"mab_prior_mean", job.prior_mean},
      {"mab_prior_precision", job.prior_precision},
      {"mab_num_explorations", job.explorations},
      {"mab_seed", job.seed ? OrderedJson(*job.seed) : OrderedJson()},
      {"max_power", job.max_power.value},
      {"number_of_gpus", job.gpus},
      {"gpu_model", job.gpu_model},
  };
  // Zeus's client knows no other members, so they are present only if given.
  if (job.algorithm != BatchSizeAlgorithm::kZeus) {
    document["algorithm"] = algorithm_names()[static_cast<std::size_t>(job.algorithm)];
  }
  if (job.recurrences > 0) document["recurrences"] = job.recurrences;
  for (const KnownEpochs& known : job.known_epochs) {
    document["known_epochs"].push_back({{"batch_size", known.batch_size},
                                        {"epochs", known.epochs},
                                        {"runs", known.runs},
                                        {"converged", known.converged},
                                        {"epoch_cost", known.epoch_cost}});
  }
  return json_line(document);
}

Result<RecurringJob> read_recurring_job(const JsonValue& document, Unknown unknown) {
  RecurringJob job;
  HARPE_TRY(read_object(document, "the job", "the job", unknown, [&](Fields& fields, Diagnostics&) {
    read_names(fields, job);
    read_training(fields, job);
    read_choice(fields, job);
    read_known_epochs(fields, job);
  }));
  return job;
}

Result<RecurringJob> parse_recurring_job(std::string_view text) {
  return read_recurring_job(HARPE_TRY(parse_json(text, "the job")), Unknown::kRefused);
}

}  // namespace harpe::zeus
