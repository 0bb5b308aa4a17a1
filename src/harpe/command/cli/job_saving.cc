#include "harpe/command/cli/job_saving.h"

#include <algorithm>
#include <cmath>

#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/quantity_text.h"

namespace harpe {
namespace {

/// True if iterations take the time that the plan predicts, or one of the two is not known.
bool as_predicted(const Json& status) {
  constexpr double kSame = 0.02;
  const auto measured = number_in(status, "iteration_time_s");
  const auto predicted = number_in(status, "predicted_time_s");
  return !measured || !predicted || std::abs(*measured / *predicted - 1) <= kSame;
}

}  // namespace

bool is_claimed(const Json& status) {
  return number_in(status, "saved_j").value_or(0) >
             number_in(status, "saved_error_j").value_or(0) &&
         as_predicted(status);
}

std::string saved_amount(const Json& status) {
  const auto joules = number_in(status, "saved_j");
  if (!joules) return "-";
  const auto error = number_in(status, "saved_error_j");
  if (!error || (*joules == 0 && *error == 0)) return short_energy(*joules);
  const EnergyUnit unit = unit_of(std::max(std::abs(*joules), *error));
  return fixed(*joules / unit.joules, unit.decimals) + " ± " +
         fixed(*error / unit.joules, unit.decimals) + " " + unit.name;
}

std::string saved_text(const Json& status) {
  std::string text = saved_amount(status);
  const auto joules = number_in(status, "saved_j");
  const auto error = number_in(status, "saved_error_j");
  if (!joules || !error || (*joules == 0 && *error == 0)) return text;
  if (std::abs(*joules) <= *error) text += ", not distinguishable from zero";
  if (!as_predicted(status)) {
    const double ratio = number_in(status, "iteration_time_s").value_or(0) /
                         number_in(status, "predicted_time_s").value_or(1);
    text += " (iterations take " + fixed(100 * std::abs(ratio - 1), 0) + " % " +
            (ratio > 1 ? "more" : "less") + " time than predicted)";
  }
  return text;
}

std::optional<SavedShare> saved_share(const Json& status) {
  const auto joules = number_in(status, "saved_j");
  const double used = number_in(status, "energy_j").value_or(0);
  if (!joules || !is_claimed(status) || !(used + *joules > 0)) return std::nullopt;
  const double error = number_in(status, "saved_error_j").value_or(0);
  return SavedShare{100 * *joules / (used + *joules), 100 * error / (used + *joules)};
}

std::string saving_text(const Json& status) {
  const auto share = saved_share(status);
  return saved_text(status) + " against all-max" +
         (share ? " (" + fixed(share->percent, 1) + " %)" : "");
}

}  // namespace harpe
