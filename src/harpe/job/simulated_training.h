#pragma once
/// \file
/// Training played against a job, for tests: ranks on GPUs whose true costs are known. Simulated.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/frontier/frontier.h"
#include "harpe/job/job.h"
#include "harpe/job/job_work.h"
#include "harpe/job/make_plans.h"

namespace harpe {

class SimulatedTraining {
 public:
  struct Options {
    Watts blocking_power{80};
    Seconds overhead{0.05};  ///< of an iteration, outside the pipeline
    double noise = 0.001;    ///< relative, of times and energies reported
    std::uint64_t seed = 1;
    double jitter = 0;           ///< relative, of what single instructions really take
    int characterize_takes = 3;  ///< iterations
    int better_plans_take = 0;   ///< iterations after the first plans; 0: none follow
  };
  /// What an iteration was.
  struct Iteration {
    std::int64_t number = 0;
    Seconds time{};
    Joules energy{};  ///< all pipelines
    std::vector<Joules> of_pipeline;
    std::vector<std::uint64_t> versions;  ///< by which each rank ran
    /// The same iteration of the same machines with every instruction at its highest clock.
    Seconds all_max_time{};
    Joules all_max_energy{};
  };

  SimulatedTraining(const JobSpec& spec, Profile truth, Options options)
      : spec_(spec),
        truth_(std::move(truth)),
        options_(options),
        pipeline_(*Pipeline::build(spec.schedule, spec.transfers)),
        work_(spec.schedule),
        random_(options.seed),
        books_(static_cast<std::size_t>(spec.shape.ranks())) {
    for (const OperatingPoint& point : truth_.entries().front().points)
      clocks_.push_back(point.clock);
  }

  // What may go wrong.
  std::map<std::pair<int, int>, double> slow;  ///< factor of (pipeline, stage)
  /// A further factor.
  std::function<double(std::int64_t, int pipeline, int stage)> slowness = [](std::int64_t, int,
                                                                             int) { return 1.0; };
  /// By which a pipeline ends later than its computations explain.
  std::function<Seconds(int)> delay = [](int) { return Seconds{0}; };
  /// Clocks that the GPU of (pipeline, stage) is held to, whatever is asked for.
  std::map<std::pair<int, int>, Megahertz> held;
  /// By which an iteration is longer outside of computations, such as a checkpoint.
  std::function<Seconds(std::int64_t)> stall = [](std::int64_t) { return Seconds{0}; };
  std::function<bool(std::int64_t, Place)> lost = [](std::int64_t, Place) { return false; };
  /// Whether the orders do not reach a rank after this iteration.
  std::function<bool(Place)> unreached = [](Place) { return false; };
  std::function<void(IterationReport&)> change_report = [](IterationReport&) {};
  /// Clocks that the GPUs of a stage do not have.
  std::map<int, std::vector<Megahertz>> lacking;

  std::string session(Place place) const {
    return run_ + "-" + std::to_string(spec_.shape.index(place));
  }
  RankRegistration registration(Place place) const {
    std::vector<Megahertz> clocks = clocks_;
    if (const auto missing = lacking.find(place.stage); missing != lacking.end()) {
      std::erase_if(clocks, [&](Megahertz clock) {
        return std::ranges::find(missing->second, clock) != missing->second.end();
      });
    }
    return {.place = place,
            .session = session(place),
            .run = run_,
            .gpu = "simulated",
            .clocks = std::move(clocks)};
  }
  Status register_all(Job& job) {
    for (const Place place : places()) {
      if (Result<RankEntry> rank = job.register_rank(registration(place), now_); !rank)
        return rank.error();
    }
    take_effects(job);
    return ok_status();
  }
  /// Training starts again, with other processes, at this iteration.
  void start_again(const std::string& run, std::int64_t iteration) {
    run_ = run;
    iteration_ = iteration;
    for (auto& book : books_) book.clear();
  }

  Seconds now() const { return now_; }
  /// Time passes without training.
  void run_for(Seconds time) { now_ += time; }
  void take_effects_of(Job& job) { take_effects(job); }
  std::int64_t next_iteration() const { return iteration_; }
  const std::vector<Iteration>& iterations() const { return iterations_; }
  const Iteration& last() const { return iterations_.back(); }
  std::vector<Notice> notices;
  JobTexts stored;  ///< the newest snapshot that the job has asked for
  Profile& truth() { return truth_; }

  void run(Job& job, int count) {
    for (int i = 0; i < count; ++i) step(job);
  }
  /// At most `most` iterations. \returns whether it came true
  bool run_until(Job& job, const std::function<bool()>& done, int most) {
    for (int i = 0; i < most; ++i) {
      if (done()) return true;
      step(job);
    }
    return done();
  }

  std::vector<Place> places() const {
    std::vector<Place> all;
    for (int d = 0; d < spec_.shape.data; ++d)
      for (int s = 0; s < spec_.shape.stages; ++s)
        for (int t = 0; t < spec_.shape.tensor; ++t) all.push_back({d, s, t});
    return all;
  }

 private:
  const StageOrders* orders_of(Place place) const {
    const StageOrders* found = nullptr;
    for (const auto& [version, orders] : books_[spec_.shape.index(place)])
      if (orders.from_iteration <= iteration_) found = &orders;
    return found;
  }
  /// That the GPUs of a stage have.
  Megahertz highest(int stage) const {
    return std::ranges::max(registration({0, stage, 0}).clocks);
  }
  Megahertz clock_of(Place place, int position) const {
    const StageOrders* orders = orders_of(place);
    if (orders == nullptr) return highest(place.stage);
    return orders->clocks.size() == 1 ? orders->clocks[0] : orders->clocks[position];
  }
  Megahertz held_to(int pipeline_number, int stage, Megahertz clock) const {
    const auto limit = held.find({pipeline_number, stage});
    return limit == held.end() ? clock : std::min(clock, limit->second);
  }
  OperatingPoint cost(const PipelineNode& node, Megahertz clock, int pipeline_number) const {
    const auto points = truth_.points(node.stage, node.chunk, node.instruction.kind);
    clock = held_to(pipeline_number, node.stage, clock);
    OperatingPoint point = *std::ranges::find(points, clock, &OperatingPoint::clock);
    double factor = slowness(iteration_, pipeline_number, node.stage);
    if (const auto fixed = slow.find({pipeline_number, node.stage}); fixed != slow.end())
      factor *= fixed->second;
    point.time = point.time * factor;
    point.energy = point.energy * factor;
    return point;
  }
  double noisy() {
    std::normal_distribution<double> normal(1, options_.noise);
    return normal(random_);
  }

  /// One iteration of all pipelines, then all reports.
  void step(Job& job) {
    const JobShape& shape = spec_.shape;
    Iteration done;
    done.number = iteration_;
    const Seconds outside = options_.overhead + stall(iteration_);
    std::vector<Megahertz> highest_clocks;
    for (int stage = 0; stage < shape.stages; ++stage) highest_clocks.push_back(highest(stage));
    std::vector<std::vector<OperatingPoint>> costs;
    Seconds busy_at_all_max{0};
    std::normal_distribution<double> jitter(1, options_.jitter);
    for (int d = 0; d < shape.data; ++d) {
      std::vector<OperatingPoint>& mine = costs.emplace_back();
      std::vector<Seconds> durations, at_all_max;
      for (const PipelineNode& node : pipeline_.nodes()) {
        if (node.stage < 0) {  // a transfer
          mine.emplace_back();
          durations.push_back(node.transfer_time);
          at_all_max.push_back(node.transfer_time);
          continue;
        }
        const double drawn = options_.jitter > 0 ? jitter(random_) : 1;
        mine.push_back(cost(node, clock_of({d, node.stage, 0}, node.position), d));
        mine.back().time = mine.back().time * drawn;
        durations.push_back(mine.back().time);
        const OperatingPoint fastest = cost(node, highest_clocks[node.stage], d);
        at_all_max.push_back(fastest.time * drawn);
        busy_at_all_max += at_all_max.back();
        done.all_max_energy += fastest.energy;
      }
      const Seconds after = outside + delay(d);
      done.time = std::max(done.time, pipeline_.earliest(durations).makespan + after);
      done.all_max_time =
          std::max(done.all_max_time, pipeline_.earliest(at_all_max).makespan + after);
    }
    done.all_max_energy +=
        options_.blocking_power * (done.all_max_time * shape.data * shape.stages - busy_at_all_max);
    done.all_max_energy = done.all_max_energy * shape.tensor;
    now_ += done.time;
    std::vector<IterationReport> reports;
    for (const Place place : places()) {
      reports.push_back(report(place, costs[place.data], done.time));
      done.versions.push_back(reports.back().version);
      done.energy += reports.back().energy;
      done.of_pipeline.resize(static_cast<std::size_t>(place.data) + 1);
      done.of_pipeline[place.data] += reports.back().energy;
    }
    iterations_.push_back(std::move(done));
    std::ranges::shuffle(reports, random_);
    for (IterationReport& one : reports) {
      if (lost(iteration_, one.place)) continue;
      change_report(one);
      (void)job.report(one, now_);
    }
    ++iteration_;
    job.tick(now_);
    take_effects(job);
    if (request_ && --request_wait_ <= 0) answer(job);
    if (own_request_ && --own_request_wait_ <= 0) answer_own(job);
    deliver(job);
  }

  IterationReport report(Place place, const std::vector<OperatingPoint>& costs, Seconds time) {
    IterationReport report;
    report.place = place;
    report.session = session(place);
    report.iteration = iteration_;
    report.time = time;
    const StageOrders* orders = orders_of(place);
    report.version = orders == nullptr ? 0 : orders->version;
    for (const WorkItem& item : work_.stage(place.stage))
      report.instructions.push_back({.kind = item.kind,
                                     .chunk = item.chunk,
                                     .count = item.count,
                                     .time = {},
                                     .energy = {},
                                     .energy_error = {}});
    Seconds busy{0};
    for (std::size_t i = 0; i < pipeline_.nodes().size(); ++i) {
      const PipelineNode& node = pipeline_.nodes()[i];
      if (node.stage != place.stage) continue;
      const Megahertz asked = clock_of(place, node.position);
      report.throttled |= held_to(place.data, place.stage, asked) < asked;
      InstructionTotals& totals =
          report.instructions[*work_.find(place.stage, node.instruction.kind, node.chunk)];
      totals.time += costs[i].time;
      totals.energy += costs[i].energy;
      busy += costs[i].time;
    }
    for (InstructionTotals& totals : report.instructions) {
      totals.time = totals.time * noisy();
      totals.energy = totals.energy * noisy();
      totals.energy_error = totals.energy * options_.noise;
      report.energy += totals.energy;
    }
    report.energy += options_.blocking_power * (time - busy);
    return report;
  }

  void take_effects(Job& job) {
    JobEffects effects = job.take_effects();
    for (Notice& notice : effects.notices) notices.push_back(std::move(notice));
    if (effects.save) stored = job.texts();
    if (effects.characterize) {
      request_ = std::move(effects.characterize);
      first_plans_.reset();
      request_wait_ = options_.characterize_takes;
    }
    if (effects.own_plans) {
      own_request_ = std::move(effects.own_plans);
      own_request_wait_ = options_.characterize_takes;
    }
  }
  /// By what the job knows of its pipeline.
  static Result<Frontier> frontier_of(const Job& job, const CharacterizeRequest& request) {
    const JobSpec& spec = job.spec();
    return characterize(spec, *Pipeline::build(spec.schedule, spec.transfers), request);
  }
  void answer(Job& job) {
    const CharacterizeRequest request = *request_;
    const Result<Frontier> frontier = frontier_of(job, request);
    if (!frontier) {
      request_.reset();
      return job.characterized(request.ticket, frontier.error(), now_);
    }
    PlanTable plans = *make_plans(spec_, request, *frontier, Effort::kQuick, spec_.plans);
    const bool better_follow = options_.better_plans_take > 0 && !first_plans_;
    if (first_plans_) {
      plans = PlanTable::merged(*first_plans_,
                                *make_plans(spec_, request, *frontier, Effort::kFull, spec_.plans));
    }
    first_plans_.reset();
    if (better_follow) {
      first_plans_ = plans;
      request_wait_ = options_.better_plans_take;
    } else {
      request_.reset();
    }
    job.characterized(request.ticket, std::move(plans), now_, better_follow);
    take_effects(job);
  }
  void answer_own(Job& job) {
    const CharacterizeRequest request = *std::exchange(own_request_, std::nullopt);
    const Result<Frontier> frontier = frontier_of(job, request);
    Result<PlanTable> plans =
        frontier ? make_plans(spec_, request, *frontier, Effort::kQuick, spec_.plans)
                 : Result<PlanTable>(frontier.error());
    job.characterized(request.ticket, std::move(plans), now_);
    take_effects(job);
  }
  void deliver(const Job& job) {
    for (const Place place : places()) {
      if (unreached(place)) continue;
      for (StageOrders& orders : job.orders(place.data, place.stage))
        books_[spec_.shape.index(place)][orders.version] = std::move(orders);
    }
  }

  JobSpec spec_;
  Profile truth_;
  Options options_;
  Pipeline pipeline_;
  JobWork work_;
  std::mt19937_64 random_;
  std::vector<Megahertz> clocks_;
  std::string run_ = "first";
  std::int64_t iteration_ = 0;
  Seconds now_{1.8e9};
  std::vector<std::map<std::uint64_t, StageOrders>> books_;  ///< of each rank, by version
  std::optional<CharacterizeRequest> request_;
  std::optional<CharacterizeRequest> own_request_;
  int request_wait_ = 0, own_request_wait_ = 0;
  std::optional<PlanTable> first_plans_;  ///< better ones are being made
  std::vector<Iteration> iterations_;
};

}  // namespace harpe
