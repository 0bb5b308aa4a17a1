#include "harpe/command/lab_cli/emulate_terms.h"

#include <filesystem>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/lab_cli/emulate_options.h"

namespace harpe {
namespace {

/// Refuses options that have no effect without another one.
Status check_pairs(const EmulateArguments& arguments) {
  Diagnostics diagnostics;
  if (arguments.checkpoint_time > Seconds{0} && arguments.checkpoint_every == 0)
    diagnostics.add("--checkpoint-time needs --checkpoint-every N");
  if (arguments.restart_time > Seconds{0} && arguments.failure_every == Seconds{0})
    diagnostics.add("--restart-time needs --failure-every TIME");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

/// Returns "A pipeline is 20 % slower for 1 d of every 3 d, another one each time".
std::string words_of(const RecurringStraggler& one) {
  std::string text = one.pipeline ? "Pipeline " + std::to_string(*one.pipeline) : "A pipeline";
  text += one.held_to > Megahertz{0}
              ? " is held to " + std::to_string(one.held_to.value) + " MHz by heat"
              : " is " + shortest(100 * (one.slowdown - 1), 1) + " % slower";
  if (one.between == Seconds{0}) return text + " all along";
  text += one.is_random ? " for " + duration_text(one.lasts) + " at a time, " +
                              duration_text(one.between) + " apart on average"
                        : " for " + duration_text(one.lasts) + " of every " +
                              duration_text(one.between + one.lasts);
  return one.pipeline ? text : text + ", another one each time";
}

}  // namespace

void warn_of_small_shares(const EmulateArguments& arguments, Console& console) {
  constexpr double kSuspicious = 2e-4;
  for (const auto& [option, share] : {std::pair("--noise", arguments.noise),
                                      std::pair("--power-spread", arguments.power_spread)}) {
    if (share > 0 && share < kSuspicious)
      console.warn(std::string(option) + " is in percent: " + shortest(100 * share, 6) + " %");
  }
}

Result<EmulationTerms> read_terms(const EmulateArguments& arguments) {
  HARPE_TRY(check_pairs(arguments));
  EmulationTerms terms{.stragglers = {.recurring = arguments.stragglers},
                       .straggler_file = arguments.straggler_trace,
                       .checkpoints = {arguments.checkpoint_every, arguments.checkpoint_time},
                       .failures = {arguments.failure_every, arguments.restart_time},
                       .reaction = arguments.reaction};
  std::vector<RecurringStraggler>& recurring = terms.stragglers.recurring;
  recurring.insert(recurring.end(), arguments.throttles.begin(), arguments.throttles.end());
  if (const std::string& file = arguments.straggler_trace; !file.empty()) {
    const std::string text = HARPE_TRY(read_input_file(file));
    terms.stragglers.trace = HARPE_TRY(parse_straggler_trace(text, file));
  }
  const std::string& cap = arguments.power_cap;
  if (cap.empty()) return terms;
  if (const Result<Watts> watts = parse_watts(cap); watts.ok()) {
    if (*watts <= Watts{0}) return Error::invalid("--power-cap: expected more than 0 W");
    terms.power_cap.caps = {{Seconds{0}, *watts}};
  } else {
    if (!std::filesystem::exists(cap))
      return Error::invalid(
          "--power-cap: expected watts (300kW) or a CSV file, but there is no "
          "file " +
          in_quotes(cap));
    const std::string text = HARPE_TRY(read_input_file(cap));
    terms.power_cap = HARPE_TRY(parse_power_cap_trace(text, cap));
  }
  return terms;
}

std::vector<std::string> events_of(const EmulateArguments& arguments, const EmulationTerms& terms) {
  std::vector<std::string> events;
  for (const RecurringStraggler& one : terms.stragglers.recurring) events.push_back(words_of(one));
  if (!arguments.straggler_trace.empty())
    events.push_back("Pipelines are slow as " + arguments.straggler_trace + " says");
  if (!events.empty()) {
    events.push_back("The others slow down once a pipeline was slow in " +
                     std::to_string(arguments.reaction) + " iterations");
  }
  if (!arguments.power_cap.empty())
    events.push_back("All GPUs together are capped: --power-cap " + arguments.power_cap);
  return events;
}

}  // namespace harpe
