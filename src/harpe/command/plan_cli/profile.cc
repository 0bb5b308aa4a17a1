#include "harpe/plan/profile/profile.h"

#include <algorithm>
#include <memory>

#include "harpe/base/quantity_text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/per_stage.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/unit_doubts.h"

namespace harpe::command {
namespace {

struct ProfileArguments {
  std::string file;
  std::vector<Watts> blocking_power;
};

std::string clocks_text(const std::vector<Megahertz>& clocks) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < clocks.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(clocks[i].value);
  }
  if (clocks.size() > kShown) text += " and " + std::to_string(clocks.size() - kShown) + " more";
  return text + " MHz";
}

std::string label(const InstructionCheck& check, bool with_chunk) {
  std::string text = "stage " + std::to_string(check.stage);
  if (with_chunk) text += " chunk " + std::to_string(check.chunk);
  text += " " + std::string(name(check.kind));
  return check.knobs.empty() ? text : text + ", " + text_of(check.knobs);
}

/// \param in_doubt  true if a warning doubts the units
/// \param blocking  true if the blocking power is known
std::string check_text(const Profile& profile, const ProfileCheck& check, bool in_doubt,
                       bool blocking, bool coloured) {
  Table table = Table::of(
      {"instruction", "clocks", "Pareto", "hull", "fastest", "thriftiest", "noise s", "noise J"});
  std::string remarks;
  bool looks_right = check.notes.empty();
  const auto remark = [&](const InstructionCheck& entry, const std::string& text) {
    return wrapped_text(label(entry, profile.has_chunks()) + ": " + text, kTextColumns);
  };
  for (const InstructionCheck& entry : check.instructions) {
    table.add({label(entry, profile.has_chunks()), std::to_string(entry.points),
               std::to_string(entry.pareto), std::to_string(entry.hull),
               std::to_string(entry.fastest.value), std::to_string(entry.most_efficient.value),
               fixed(100 * entry.time_noise, 2) + " %", fixed(100 * entry.energy_noise, 2) + " %"});
    if (!entry.dominated.empty()) {
      remarks += remark(entry, "never used, as another clock beats it in time and energy: " +
                                   clocks_text(entry.dominated));
    }
    if (!entry.missing.empty())
      remarks += remark(entry, "not measured: " + clocks_text(entry.missing));
    for (const std::string& sentence : entry.suspicious) {
      // Painted after wrapping, since escapes have no width.
      const std::string word = "suspicious:";
      std::string text = remark(entry, word + ' ' + sentence);
      text.replace(text.find(word), word.size(), painted(word, Paint::kBold, coloured));
      remarks += text;
    }
    looks_right = looks_right && entry.missing.empty() && entry.suspicious.empty();
  }
  for (const std::string& note : check.notes) remarks += wrapped_text(note, kTextColumns);
  return synthetic_line(profile.is_synthetic(), coloured) + std::to_string(profile.stages()) +
         " stages, " + std::to_string(profile.entries().size()) + " instructions\n" +
         (!looks_right ? "Some values look wrong: see below the table.\n"
          : in_doubt   ? "The units look wrong, nothing else.\n"
                       : "Nothing looks wrong.\n") +
         "\n" + table.text(coloured, kTextColumns) + "\n" + remarks +
         "Pareto: clocks that no other beats in time and energy; plans use these.\n"
         "Hull: those of them on the lower convex curve.\n"
         "Fastest, thriftiest: the clocks that take the least time and energy, MHz.\n"
         "Noise: of times (s) and of energies (J).\n" +
         wrapped_text(
             blocking ? "Energies are compared after subtracting the energy of a GPU that waits "
                        "for the same time (--blocking-power), which favours slower clocks."
                      : "Energies are compared as they are: --blocking-power subtracts the energy "
                        "of a GPU that waits for the same time.",
             kTextColumns);
}

Json clocks_json(const std::vector<Megahertz>& clocks) {
  Json list = Json::array();
  for (const Megahertz clock : clocks) list.push_back(clock.value);
  return list;
}

Json check_json(const Profile& profile, const ProfileCheck& check) {
  Json instructions = Json::array();
  for (const InstructionCheck& entry : check.instructions) {
    Json& instruction =
        instructions.emplace_back(Json{{"stage", entry.stage},
                                       {"chunk", entry.chunk},
                                       {"instruction", name(entry.kind)},
                                       {"clocks", entry.points},
                                       {"pareto", entry.pareto},
                                       {"hull", entry.hull},
                                       {"fastest_mhz", entry.fastest.value},
                                       {"most_efficient_mhz", entry.most_efficient.value},
                                       {"time_noise", entry.time_noise},
                                       {"energy_noise", entry.energy_noise},
                                       {"dominated_mhz", clocks_json(entry.dominated)},
                                       {"missing_mhz", clocks_json(entry.missing)},
                                       {"suspicious", entry.suspicious}});
    const Knobs& knobs = entry.knobs;
    if (knobs.memory_clock.value > 0) {
      instruction["memory_frequency_mhz"] = knobs.memory_clock.value;
    }
    if (knobs.power_limit.value > 0) instruction["power_limit_w"] = knobs.power_limit.value;
    if (!knobs.label.empty()) instruction["label"] = knobs.label.text();
  }
  return {{"synthetic", profile.is_synthetic()},
          {"stages", profile.stages()},
          {"instructions", std::move(instructions)},
          {"notes", check.notes}};
}

Result<Outcome> run_check(const ProfileArguments& arguments, Console& console) {
  const Profile profile = HARPE_TRY(given_profile(arguments.file, console));
  HARPE_TRY(check_units(profile, arguments.file, false, console));
  Diagnostics diagnostics;
  const ProfileCheckOptions options{.blocking_power =
                                        per_stage(arguments.blocking_power, profile.stages(),
                                                  "blocking-power", "stages", diagnostics)};
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  const ProfileCheck check = check_profile(profile, options);
  const plan::UnitDoubts doubts = plan::unit_doubts(profile);
  const bool in_doubt = !doubts.unlikely.empty() || !doubts.impossible.empty();
  const bool blocking =
      std::ranges::any_of(options.blocking_power, [](Watts power) { return power > Watts{0}; });
  return Outcome{.text = check_text(profile, check, in_doubt, blocking, console.colour_out),
                 .json = json_text(check_json(profile, check))};
}

}  // namespace

void add_profile_command(Commands& commands) {
  CLI::App& profile = commands.add(commands.root(), "profile", "check measured profiles",
                                   "harpe profile check gpt3.csv --blocking-power 83.64");
  const auto arguments = std::make_shared<ProfileArguments>();
  CLI::App& check = commands.add(
      profile, "check",
      "summarize a profile and report anomalies\n"
      "Prints the clocks of each instruction, the clocks that others beat in both time and "
      "energy, gaps between clocks, noise, and suspicious rows. Rows with other memory clocks, "
      "power limits or labels are checked separately.",
      "harpe profile check gpt3.csv --blocking-power 83.64",
      [arguments](Console& console) { return run_check(*arguments, console); });
  add_argument(check, "FILE", "Measured profile (CSV)", arguments->file);
  add_parsed(
      check, "--blocking-power", "WATTS[,...]",
      "Power of a waiting GPU, W: one value, or one per stage; subtracted from energies before "
      "comparison (default 0)",
      arguments->blocking_power, parse_watts_list);
}

}  // namespace harpe::command
