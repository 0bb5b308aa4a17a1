#include "harpe/plan/profile/stage_list.h"

#include <cstddef>

namespace harpe::plan {

std::string stage_list(const std::vector<int>& stages) {
  std::string list = stages.size() == 1 ? "stage " : "stages ";
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t last = i;
    while (last + 1 < stages.size() && stages[last + 1] == stages[last] + 1) ++last;
    if (i > 0) list += ", ";
    list += std::to_string(stages[i]);
    if (last > i) list += (last == i + 1 ? ", " : " to ") + std::to_string(stages[last]);
    i = last + 1;
  }
  return list;
}

}  // namespace harpe::plan
