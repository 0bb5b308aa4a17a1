#include "harpe/command/plan_cli/synthetic_line.h"

#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

std::string synthetic_line(bool is_synthetic, bool coloured) {
  if (!is_synthetic) return {};
  std::string text = wrapped_text(std::string(kSyntheticRemark), kTextColumns);
  text.pop_back();
  return painted(text, Paint::kBold, coloured) + '\n';
}

}  // namespace harpe
