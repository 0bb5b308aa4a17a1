#include "harpe/lab/replay/measured_limits.h"

#include <algorithm>
#include <utility>

#include "harpe/base/check.h"

namespace harpe::lab {

MeasuredLimits::MeasuredLimits(const TracedJob& job)
    : job_(job),
      weights_{.per_joule = job.job.eta,
               .per_second = (1 - job.job.eta) * job.job.max_power.value} {}

TracedLimit MeasuredLimits::first_epoch(const TracedSize& size, double epochs) {
  Settled& settled = settled_[size.batch_size];
  if (settled.measured == measured_ && epochs <= settled.epochs) return best(size);
  std::vector<double> settings;
  for (std::size_t i = size.limits.size(); i-- > 0;) settings.push_back(size.limits[i].watts);
  const zeus::Knob knob =
      zeus::Knob::make(zeus::KnobKind::kPowerLimit, std::move(settings)).value();
  zeus::SizeProfile& own = profiles_[size.batch_size];
  own.batch_size = size.batch_size;
  const std::vector<zeus::SizeProfile> known = others(size.batch_size);
  TracedLimit sum;
  std::size_t count = 0;
  while (const auto next = zeus::next_limit(
             knob, own, known,
             {.weights = weights_, .gpus = job_.job.gpus, .epochs = epochs, .in_epoch = count})) {
    const TracedLimit& limit = size.limits[size.limits.size() - 1 - *next];
    own.measured.push_back({knob[*next], limit.epoch_time, limit.epoch_energy});
    sum.epoch_time += limit.epoch_time;
    sum.epoch_energy += limit.epoch_energy;
    ++count;
  }
  measured_ += count;
  settled = {.measured = measured_, .epochs = epochs};
  if (count == 0) return best(size);
  return {.epoch_time = sum.epoch_time / static_cast<double>(count),
          .epoch_energy = sum.epoch_energy / static_cast<double>(count)};
}

const TracedLimit& MeasuredLimits::best(const TracedSize& size) const {
  const zeus::Measurement* best = profiles_.at(size.batch_size).best(weights_);
  HARPE_CHECK(best != nullptr, "the best limit of a run is one that was measured");
  return *std::ranges::find(size.limits, static_cast<int>(best->setting), &TracedLimit::watts);
}

std::size_t MeasuredLimits::count(int batch_size) const {
  const auto at = profiles_.find(batch_size);
  return at == profiles_.end() ? 0 : at->second.measured.size();
}

std::vector<zeus::SizeProfile> MeasuredLimits::others(int batch_size) const {
  std::vector<zeus::SizeProfile> list;
  for (const auto& [size, profile] : profiles_) {
    if (size != batch_size) list.push_back(profile);
  }
  return list;
}

}  // namespace harpe::lab
