#include "harpe/command/plan_cli/given_profile.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "harpe/base/csv.h"
#include "harpe/base/quantity_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/input/input_file.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/unit_doubts.h"

namespace harpe::command {

Result<Profile> given_profile(const std::string& file, Console& console) {
  const std::string text = HARPE_TRY(read_input_file(file));
  Profile profile = HARPE_TRY(parse_profile(text, file));
  if (const std::string remark = csv_form_remark(text); !remark.empty()) {
    console.warn(file + ": " + remark);
  }
  return profile;
}

Status check_units(const Profile& profile, const std::string& file, bool refuse, Console& console) {
  const plan::UnitDoubts doubts = plan::unit_doubts(profile);
  for (const std::string& sentence : doubts.unlikely) console.warn(file + ": " + sentence);
  Diagnostics diagnostics(file);
  for (const std::string& sentence : doubts.impossible) {
    if (refuse) {
      diagnostics.add(sentence);
    } else {
      console.warn(file + ": " + sentence);
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

Result<Schedule> given_schedule(const std::string& file, TorchDialect dialect, int copies) {
  const std::string text = HARPE_TRY(read_input_file(file));
  return parse_schedule(text, file, dialect, copies);
}

Result<Plan> given_plan(const std::string& file) {
  const std::string path = plan_file(file);
  const std::string text = HARPE_TRY(read_input_file(path));
  return parse_plan_json(text, path);
}

std::string plan_file(const std::string& file) {
  std::error_code no_file;
  const std::filesystem::path inside = plain_or_gz(std::filesystem::path(file) / "plan.json");
  return std::filesystem::is_regular_file(inside, no_file) ? inside.string() : file;
}

void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console) {
  const int chunks = schedule.chunks();
  if (!given || *given == chunks) return;
  console.warn("--chunks " + std::to_string(*given) + " is ignored: " + schedule.name + " has " +
               counted(static_cast<std::size_t>(chunks), "chunk") + " a stage");
}

std::string synthetic_line(bool is_synthetic, bool coloured) {
  if (!is_synthetic) return {};
  std::string text = wrapped_text(std::string(kSyntheticRemark), kTextColumns);
  text.pop_back();
  return painted(text, Paint::kBold, coloured) + '\n';
}

}  // namespace harpe::command
