#include "harpe/plan_cli/synthetic_line.h"

#include "harpe/command/console.h"
#include "harpe/plan_cli/fitted_table.h"
#include "harpe/profile/profile.h"

namespace harpe {

std::string synthetic_line(bool is_synthetic, bool coloured) {
  if (!is_synthetic) return {};
  std::string text = wrapped_text(std::string(kSyntheticRemark), kTextColumns);
  text.pop_back();
  return painted(text, Paint::kBold, coloured) + '\n';
}

}  // namespace harpe
