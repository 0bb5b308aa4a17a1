#include <algorithm>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/schedule/schedule.h"

namespace harpe {
namespace {

/// Names that others use, in lower case.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"interleaved1f1b", "interleaved-1f1b-torch"},
    {"zbvzerobubble", "zb-v"},
    {"loopedbfs", "looped-bfs"},
};

}  // namespace

const std::vector<ScheduleGenerator>& schedule_generators() {
  static const std::vector<ScheduleGenerator> kGenerators = {
      {"gpipe", "all forwards, then all backwards", false, gpipe},
      {"1f1b", "one forward, one backward in turn (PipeDream-flush, Megatron)", false, one_f_one_b},
      {"interleaved-1f1b", "1F1B over several chunks a stage, in Megatron's order", true,
       interleaved_one_f_one_b},
      {"interleaved-1f1b-torch", "1F1B over several chunks a stage, in PyTorch's order", true,
       interleaved_one_f_one_b_torch},
      {"recompute-1f1b", "1F1B with activations recomputed inside every backward", false,
       recompute_one_f_one_b},
      {"early-recompute-1f1b", "the same, the last ones recomputed while waiting for the gradient",
       false, early_recompute_one_f_one_b},
      {"zb-h1", "zero bubble, weight gradients split off, memory of 1F1B", false, zb_h1},
      {"zb-h2", "zero bubble, weight gradients split off, twice the memory", false, zb_h2},
      {"zb-v", "zero bubble over two chunks placed as a V, memory of 1F1B", false, zb_v},
      {"dualpipev", "forwards overlapped with backwards over two chunks placed as a V", false,
       dual_pipe_v},
      {"looped-bfs", "all forwards chunk by chunk, then all backwards", true, looped_bfs},
  };
  return kGenerators;
}

Result<Schedule> make_schedule(std::string_view name, const ScheduleOptions& options) {
  std::string wanted = lower(trim(name));
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  for (const auto& [alias, generator] : kAliases) {
    if (wanted == alias) wanted = generator;
  }
  std::vector<std::string> names;
  std::string known;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    if (generator.name == wanted) return generator.make(options);
    if (!names.empty()) known += ", ";
    known += names.emplace_back(generator.name);
  }
  const auto likely = nearest(wanted, names);
  return Error::invalid("unknown schedule " + in_quotes(name) +
                        (likely ? "; did you mean '" + *likely + "'?" : "") + " (known are " +
                        known + ")");
}

}  // namespace harpe
