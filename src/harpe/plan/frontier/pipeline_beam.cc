#include "harpe/plan/frontier/pipeline_beam.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace harpe {
namespace {

constexpr std::int64_t kPicoseconds = 1000;  // of the network's nanoseconds

}  // namespace

PipelineBeam::PipelineBeam(const ArcPrices& prices, const flow::State& relaxed,
                           std::int64_t deadline, double curvature)
    : layout_(prices.layout()), deadline_(deadline), curvature_(curvature), beam_(prices) {
  const Problem& problem = layout_.problem();
  for (const std::int64_t potential : relaxed.potential)
    expected_.push_back(kPicoseconds * potential);
  for (const std::int32_t event : layout_.order()) {
    if (event != problem.network.source && event != problem.network.sink) events_.push_back(event);
  }
  std::ranges::sort(events_, {}, [&](std::int32_t event) {
    return std::pair(expected_[event], layout_.place(event));
  });
  double steps = 0;
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    const auto times = layout_.times(static_cast<std::int32_t>(t));
    step_ += static_cast<double>(times.back() - times.front());
    steps += static_cast<double>(times.size() - 1);
  }
  if (steps > 0) step_ /= steps;
}

Assignment PipelineBeam::plan(const Options& options) {
  const Problem& problem = layout_.problem();
  EventTimes latest = expected_;
  for (std::int64_t& time : latest) time += static_cast<std::int64_t>(options.reach * step_);
  EventTimes time(expected_.size(), 0);
  time[problem.network.sink] = deadline_;
  const EventBeam::Options search{.width = options.width,
                                  .most = std::numeric_limits<double>::infinity(),
                                  .latest = &latest,
                                  .drift = options.drift * curvature_,
                                  .expected = &expected_};
  if (!beam_.retime(events_, time, search, random_)) return {};
  Assignment choice(problem.table.size());
  layout_.fit(time, choice);
  return choice;
}

}  // namespace harpe
