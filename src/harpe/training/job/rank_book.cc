#include "harpe/training/job/rank_book.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "harpe/training/job/job_size.h"

namespace harpe::training {
namespace {

std::vector<Megahertz> falling(std::vector<Megahertz> clocks) {
  std::ranges::sort(clocks, std::greater());
  clocks.erase(std::unique(clocks.begin(), clocks.end()), clocks.end());
  std::erase(clocks, Megahertz{0});
  return clocks;
}

}  // namespace

std::string text(RankCoordinates coordinates) {
  return "pipeline " + std::to_string(coordinates.data) + ", stage " +
         std::to_string(coordinates.stage) + ", tensor shard " + std::to_string(coordinates.tensor);
}

RankBook::RankBook(JobShape shape, Seconds silence, bool sets_clocks)
    : shape_(shape),
      silence_(silence),
      sets_clocks_(sets_clocks),
      holders_(static_cast<std::size_t>(shape.ranks())),
      clocks_(static_cast<std::size_t>(shape.stages)) {}

Result<RankBook::Entered> RankBook::enter(const RankRegistration& registration, Seconds now) {
  const RankCoordinates coordinates = registration.coordinates;
  if (!shape_.holds(coordinates)) {
    return Error::invalid("the job has no " + text(coordinates) + ": it has " +
                          std::to_string(shape_.data) + " pipelines of " +
                          std::to_string(shape_.stages) + " stages of " +
                          std::to_string(shape_.tensor) + " tensor shards");
  }
  if (registration.session.empty()) return Error::invalid("a rank needs a session");
  const std::vector<Megahertz> clocks = falling(registration.clocks);
  if (clocks.empty() && sets_clocks_) {
    return Error::invalid(text(coordinates) + ": no clocks that its GPU could be locked to");
  }

  Entered entered{.rank = static_cast<int>(shape_.index(coordinates))};
  if (!is_free(coordinates, registration.session, now)) {
    return Error::of(ErrorCode::kConflict,
                     text(coordinates) + " is held by another process, heard of less than " +
                         std::to_string(static_cast<int>(silence_.value)) + " s ago");
  }

  // Everything is checked before anything changes.
  std::vector<Megahertz> common = clocks_[coordinates.stage];
  if (common.empty()) {
    common = clocks;
  } else {
    std::erase_if(common, [&](Megahertz clock) {
      return !std::ranges::binary_search(clocks, clock, std::greater());
    });
  }
  if (common.empty() && sets_clocks_) {
    return Error::invalid(text(coordinates) +
                          ": its GPU has no clock in common with the other GPUs of stage " +
                          std::to_string(coordinates.stage));
  }

  Holder& holder = holders_.place(shape_.index(coordinates));
  if (registered_ == 0) run_ = registration.run;
  entered.changed = holder.session != registration.session || holder.ended;
  entered.fewer_clocks = common.size() < clocks_[coordinates.stage].size();
  if (!holder.registered()) ++registered_;
  if (holder.ended) --ended_;
  if (entered.changed || holder.gpu != registration.gpu ||
      holder.power_limit != registration.power_limit ||
      holder.asks_ahead != registration.asks_ahead) {
    changed_parts_.insert(shape_.index(coordinates) / RankHolders::kOfPart);
  }
  holder = {.session = registration.session,
            .gpu = registration.gpu,
            .power_limit = registration.power_limit,
            .heard = now,
            .asks_ahead = registration.asks_ahead};
  clock_count_ += common.size() - clocks_[coordinates.stage].size();
  clocks_[coordinates.stage] = std::move(common);
  has_simulated_ = has_simulated_ || registration.simulated;
  return entered;
}

std::size_t RankBook::memory() const {
  return memory_of_ranks(holders_.places(), clock_count_);
}

std::size_t RankBook::memory_to_enter(const RankRegistration& registration) const {
  const RankCoordinates coordinates = registration.coordinates;
  if (!shape_.holds(coordinates)) return 0;
  const std::size_t part = shape_.index(coordinates) / RankHolders::kOfPart;
  return memory_of_ranks(holders_.has_part(part) ? 0 : holders_.size_of_part(part),
                         clocks_[coordinates.stage].empty() ? registration.clocks.size() : 0);
}

bool RankBook::is_free(RankCoordinates coordinates, const std::string& session, Seconds now) const {
  const Holder& one = holder(coordinates);
  return !one.registered() || one.ended || one.session == session ||
         now - std::max(one.heard, listening_since_) >= silence_;
}

Status RankBook::hear(RankCoordinates coordinates, const std::string& session, Seconds now) {
  if (!shape_.holds(coordinates)) return Error::invalid("the job has no " + text(coordinates));
  const Holder& known = holder(coordinates);
  if (!known.registered()) {
    return Error::of(ErrorCode::kConflict, text(coordinates) + " has not registered");
  }
  if (known.session != session) {
    return Error::of(ErrorCode::kConflict, text(coordinates) + " is held by another process");
  }
  Holder& holder = holders_.place(shape_.index(coordinates));
  holder.heard = std::max(holder.heard, now);
  return ok_status();
}

Status RankBook::end(RankCoordinates coordinates, const std::string& session) {
  if (!shape_.holds(coordinates)) return Error::invalid("the job has no " + text(coordinates));
  if (session.empty() || holder(coordinates).session != session) {
    return Error::of(ErrorCode::kConflict, text(coordinates) + " is not held by this process");
  }
  Holder& holder = holders_.place(shape_.index(coordinates));
  if (std::exchange(holder.ended, true)) return ok_status();
  ++ended_;
  changed_parts_.insert(shape_.index(coordinates) / RankHolders::kOfPart);
  return ok_status();
}

void RankBook::all_parts_changed() {
  for (std::size_t part = 0; part < parts(); ++part) changed_parts_.insert(part);
}

std::vector<RankCoordinates> RankBook::missing(std::size_t most) const {
  std::vector<RankCoordinates> places;
  for (int data = 0; data < shape_.data; ++data)
    for (int stage = 0; stage < shape_.stages; ++stage)
      for (int tensor = 0; tensor < shape_.tensor; ++tensor) {
        const RankCoordinates coordinates{data, stage, tensor};
        if (holder(coordinates).registered()) continue;
        if (places.size() == most) return places;
        places.push_back(coordinates);
      }
  return places;
}

std::vector<RankCoordinates> RankBook::silent(Seconds since, std::size_t most) const {
  std::vector<RankCoordinates> places;
  for (int data = 0; data < shape_.data; ++data)
    for (int stage = 0; stage < shape_.stages; ++stage)
      for (int tensor = 0; tensor < shape_.tensor; ++tensor) {
        const RankCoordinates coordinates{data, stage, tensor};
        const Holder& rank = holder(coordinates);
        if (!rank.registered() || rank.ended || rank.heard >= since) continue;
        if (places.size() == most) return places;
        places.push_back(coordinates);
      }
  return places;
}

int RankBook::unheard(Seconds since) const {
  return static_cast<int>(
      holders_.count([&](const Holder& one) { return !one.ended && one.heard < since; }));
}

bool RankBook::all_silent(Seconds since) const {
  return !holders_.any([&](const Holder& one) {
    return !one.ended && std::max(one.heard, listening_since_) >= since;
  });
}

void RankBook::restore(std::string run, RankHolders holders,
                       std::vector<std::vector<Megahertz>> clocks, bool has_simulated) {
  run_ = std::move(run);
  holders_ = std::move(holders);
  clocks_ = std::move(clocks);
  clock_count_ = 0;
  for (const std::vector<Megahertz>& of_stage : clocks_) clock_count_ += of_stage.size();
  has_simulated_ = has_simulated;
  registered_ = static_cast<int>(holders_.count([](const Holder&) { return true; }));
  ended_ = static_cast<int>(holders_.count([](const Holder& one) { return one.ended; }));
}

}  // namespace harpe::training
