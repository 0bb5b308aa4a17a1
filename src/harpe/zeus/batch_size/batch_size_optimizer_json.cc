#include <algorithm>
#include <limits>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/zeus/batch_size/batch_size_optimizer.h"

namespace harpe::zeus {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMost = std::numeric_limits<int>::max();
constexpr std::int64_t kMostDraws = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeastSeed = std::numeric_limits<std::int64_t>::min();

// In the order of the enumerations.
const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> kNames{"exploration", "concurrent", "exploitation"};
  return kNames;
}
const std::vector<std::string>& status_names() {
  static const std::vector<std::string> kNames{"dispatched", "succeeded", "failed"};
  return kNames;
}

OrderedJson json_of(const Trial& trial) {
  return {{"trial_number", trial.number},
          {"batch_size", trial.batch_size},
          {"kind", kind_names()[static_cast<std::size_t>(trial.kind)]},
          {"status", status_names()[static_cast<std::size_t>(trial.status)]},
          {"begun", trial.begun.value},
          {"heard", trial.heard.value},
          {"lease_s", trial.lease.value},
          {"epochs", trial.epochs},
          {"time", trial.time.value},
          {"energy", trial.energy.value},
          {"first_time", trial.first_time.value},
          {"first_energy", trial.first_energy.value},
          {"converged", trial.converged}};
}

/// Returns the trial with "metrics": [[epoch, metric or null], ...], absent if there are none.
OrderedJson stored_json(const Trial& trial) {
  OrderedJson document = json_of(trial);
  for (const MetricPoint& point : trial.metrics.points()) {
    document["metrics"].push_back(
        {point.epoch, point.metric ? OrderedJson(*point.metric) : OrderedJson()});
  }
  return document;
}

bool read_metrics(const JsonValue& list, MetricCurve& metrics) {
  using Type = JsonValue::Type;
  if (list.type != Type::kArray || list.items.size() > MetricCurve::kMostPoints) return false;
  for (const JsonValue& point : list.items) {
    if (point.type != Type::kArray || point.items.size() != 2) return false;
    const JsonValue &epoch = point.items[0], &metric = point.items[1];
    const bool is_number = metric.type == Type::kNumber;
    if (!epoch.is_integer || epoch.integer <= metrics.newest_epoch() || epoch.integer > kMost ||
        (!is_number && metric.type != Type::kNull)) {
      return false;
    }
    metrics.add(static_cast<int>(epoch.integer),
                is_number ? metric.number : std::numeric_limits<double>::quiet_NaN());
  }
  return true;
}

void read_trial(Fields& fields, Trial& trial) {
  trial.number =
      static_cast<int>(needed(fields, "trial_number", fields.integer("trial_number", 1, kMost)));
  trial.batch_size =
      static_cast<int>(needed(fields, "batch_size", fields.integer("batch_size", 1, kMost)));
  trial.kind = static_cast<Trial::Kind>(needed(fields, "kind", fields.word("kind", kind_names())));
  trial.status =
      static_cast<Trial::Status>(needed(fields, "status", fields.word("status", status_names())));
  read_number(fields, "begun", 0, kMostEnergy, trial.begun.value);
  read_number(fields, "heard", 0, kMostEnergy, trial.heard.value);
  read_number(fields, "lease_s", 0, kMostEnergy, trial.lease.value);
  read_count(fields, "epochs", 0, kMost, trial.epochs);
  read_number(fields, "time", 0, kMostEnergy, trial.time.value);
  read_number(fields, "energy", 0, kMostEnergy, trial.energy.value);
  read_number(fields, "first_time", 0, kMostEnergy, trial.first_time.value);
  read_number(fields, "first_energy", 0, kMostEnergy, trial.first_energy.value);
  trial.converged = fields.boolean("converged").value_or(false);
  const JsonValue* metrics = fields.any("metrics");
  if (metrics != nullptr && !read_metrics(*metrics, trial.metrics)) {
    fields.error("metrics", "expected at most " + std::to_string(MetricCurve::kMostPoints) +
                                " pairs of an epoch, rising, and a metric or null");
  }
}

Status read_trial(const JsonValue& value, Trial& trial) {
  return read_object(value, "a trial", "the state", Unknown::kIgnored,
                     [&](Fields& fields, Diagnostics&) { read_trial(fields, trial); });
}

}  // namespace

std::string trial_json(const Trial& trial) {
  return json_line(json_of(trial));
}

std::string batch_size_optimizer_json(const BatchSizeOptimizer& optimizer) {
  OrderedJson trials = OrderedJson::array();
  for (const Trial& trial : optimizer.trials_) trials.push_back(stored_json(trial));
  OrderedJson document{
      {"format", kBatchSizeFormat},
      {"job", own_json(recurring_job_json(optimizer.job_))},
      {"seed", optimizer.draws_.seed},
      {"draws", optimizer.draws_.count},
      {"newest", optimizer.newest_},
      {"heard", optimizer.heard_.value},
      {"reports_refused", optimizer.reports_refused_},
      {"cheapest", optimizer.cheapest_ ? json_of(*optimizer.cheapest_) : OrderedJson()},
      {"trials", std::move(trials)}};
  return json_line(document);
}

Result<BatchSizeOptimizer> parse_batch_size_optimizer(std::string_view text) {
  const JsonValue document = HARPE_TRY(parse_json(text, "the state"));
  const JsonValue* job_value = document.find("job");
  if (job_value == nullptr) return Error::invalid("the state has no job");
  RecurringJob job = HARPE_TRY(read_recurring_job(*job_value, Unknown::kIgnored));
  BatchSizeOptimizer optimizer(std::move(job), {});
  Status trials = ok_status();
  const auto read = [&](Fields& fields, Diagnostics&) {
    optimizer.draws_ = {
        .seed = needed(fields, "seed", fields.integer("seed", kLeastSeed, kMostDraws)),
        .count = needed(fields, "draws", fields.integer("draws", 0, kMostDraws))};
    read_count(fields, "newest", 0, kMost, optimizer.newest_);
    read_number(fields, "heard", 0, kMostEnergy, optimizer.heard_.value);
    optimizer.reports_refused_ = fields.integer("reports_refused", 0, kMostDraws).value_or(0);
    for (const JsonValue* value : fields.objects("trials")) {
      Status one = read_trial(*value, optimizer.trials_.emplace_back());
      if (!one.ok() && trials.ok()) trials = std::move(one);
    }
    if (!std::ranges::is_sorted(optimizer.trials_, std::ranges::less_equal{}, &Trial::number)) {
      fields.error("trials", "expected rising numbers");
    }
  };
  HARPE_TRY(read_object(document, "the state", "the state", Unknown::kIgnored, read));
  HARPE_TRY(std::move(trials));
  if (const JsonValue* cheapest = document.find("cheapest");
      cheapest != nullptr && cheapest->type == JsonValue::Type::kObject) {
    HARPE_TRY(read_trial(*cheapest, optimizer.cheapest_.emplace()));
  }
  return optimizer;
}

}  // namespace harpe::zeus
