#include <algorithm>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

/// Aliases that other projects use, in lower case.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"interleaved1f1b", "interleaved-1f1b-torch"},
    {"zbvzerobubble", "zb-v"},
    {"loopedbfs", "looped-bfs"},
};

/// Returns the name of the generator that `name` means.
std::string canonical(std::string_view name) {
  std::string wanted = lower(trim(name));
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  for (const auto& [alias, generator] : kAliases) {
    if (wanted == alias) wanted = generator;
  }
  return wanted;
}

/// Ambiguous words for several schedules, with the names of the schedules.
constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
    {"interleaved", "'interleaved-1f1b' (Megatron's) or 'interleaved-1f1b-torch'"},
    {"interleaving", "'interleaved-1f1b' (Megatron's) or 'interleaved-1f1b-torch'"},
    {"virtualpipeline", "'interleaved-1f1b' (Megatron's) or 'interleaved-1f1b-torch'"},
    {"vpp", "'interleaved-1f1b' (Megatron's) or 'interleaved-1f1b-torch'"},
    {"zerobubble", "'zb-h1', 'zb-h2' or 'zb-v'"},
    {"interleavedzerobubble", "'zb-v'"},
    {"zb", "'zb-h1', 'zb-h2' or 'zb-v'"},
    {"zb1p", "'zb-h1'"},
    {"zbh", "'zb-h1' or 'zb-h2'"},
    {"pipedream", "'1f1b'"},
    {"pipedreamflush", "'1f1b'"},
    {"afab", "'gpipe'"},
    {"dualpipe", "'dualpipev'"},
    {"bfs", "'looped-bfs'"},
    {"recompute", "'recompute-1f1b' or 'early-recompute-1f1b'"},
};

/// Returns "; did you mean 'zb-h1'?", or an empty text.
std::string guess(const std::string& wanted, const std::vector<std::string>& names) {
  std::string bare = wanted;
  std::erase(bare, '-');
  for (const auto& [word, schedules] : kFamilies)
    if (bare == word) return "; did you mean " + std::string(schedules) + "?";
  const auto likely = nearest(wanted, names);
  return likely ? "; did you mean '" + *likely + "'?" : "";
}

}  // namespace

const std::vector<ScheduleGenerator>& schedule_generators() {
  static const std::vector<ScheduleGenerator> kGenerators = {
      {"gpipe", "all forwards, then all backwards", false, 2, gpipe},
      {"1f1b", "one forward, one backward in turn (PipeDream-flush, Megatron)", false, 2,
       one_f_one_b},
      {"interleaved-1f1b", "1F1B over several chunks a stage, in Megatron's order", true, 2,
       interleaved_one_f_one_b},
      {"interleaved-1f1b-torch", "1F1B over several chunks a stage, in PyTorch's order", true, 2,
       interleaved_one_f_one_b_torch},
      {"recompute-1f1b", "1F1B with activations recomputed inside every backward", false, 2,
       recompute_one_f_one_b},
      {"early-recompute-1f1b", "the same, the last ones recomputed while waiting for the gradient",
       false, 3, early_recompute_one_f_one_b},
      {"zb-h1", "zero bubble, weight gradients split off, memory of 1F1B", false, 3, zb_h1},
      {"zb-h2", "zero bubble, weight gradients split off, twice the memory", false, 3, zb_h2},
      {"zb-v", "zero bubble over two chunks placed as a V, memory of 1F1B", false, 6, zb_v},
      {"dualpipev", "forwards overlapped with backwards over two chunks placed as a V", false, 6,
       dual_pipe_v},
      {"looped-bfs", "all forwards chunk by chunk, then all backwards", true, 2, looped_bfs},
  };
  return kGenerators;
}

Result<Schedule> make_schedule(std::string_view name, const ScheduleOptions& options) {
  const std::string wanted = canonical(name);
  std::vector<std::string> names;
  std::string known;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    if (generator.name == wanted) return generator.make(options);
    if (!names.empty()) known += ", ";
    known += names.emplace_back(generator.name);
  }
  return Error::invalid("unknown schedule " + in_quotes(name) + guess(wanted, names) +
                        " (known are " + known + ")");
}

std::int64_t most_instructions(std::string_view name, const ScheduleOptions& options) {
  const auto& all = schedule_generators();
  const auto found = std::ranges::find(all, canonical(name), &ScheduleGenerator::name);
  if (found == all.end()) return 0;
  // A count that is too large becomes the largest that fits.
  const double count = double{1} * options.stages * options.micro_batches *
                       (found->uses_chunks ? options.chunks : 1) * found->instructions_each;
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::clamp(count, 0.0, kMost));
}

}  // namespace harpe
