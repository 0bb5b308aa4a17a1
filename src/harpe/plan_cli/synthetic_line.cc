#include "harpe/plan_cli/synthetic_line.h"

#include "harpe/command/console.h"
#include "harpe/profile/profile.h"

namespace harpe {

std::string synthetic_line(bool is_synthetic, bool coloured) {
  return is_synthetic ? painted(kSyntheticRemark, Paint::kBold, coloured) + "\n" : std::string();
}

}  // namespace harpe
