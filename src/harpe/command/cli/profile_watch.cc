#include "harpe/command/cli/profile_watch.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/latency_table.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {
namespace {

constexpr std::size_t kMissingPlaces = 4;
constexpr int kDecimalsOfWatts = 2;
/// Waiting power above this share of the power at the highest clock is doubted.
constexpr double kMostOfComputing = 0.6;

std::string percentage(double fraction) {
  return fixed(100 * std::max(0.0, fraction), 1) + " %";
}

std::string shape_of(const Json& status) {
  std::string shape = text_in(status, "schedule") + ", " +
                      counted(count_of(status, "data"), "pipeline") + " x " +
                      counted(count_of(status, "stages"), "stage");
  if (const int tensor = count_of(status, "tensor"); tensor > 1)
    shape += " x " + std::to_string(tensor) + " tensor shards";
  return shape + ", " + counted(count_of(status, "micro_batches"), "micro-batch");
}

std::string missing_ranks(const Json& status) {
  std::string places;
  std::size_t shown = 0;
  const Json& missing = member(status, "ranks_missing");
  for (const Json& place : missing) {
    if (++shown > kMissingPlaces) break;
    places += (places.empty() ? "data " : "; data ") + std::to_string(count_of(place, "data")) +
              ", stage " + std::to_string(count_of(place, "stage")) + ", tensor " +
              std::to_string(count_of(place, "tensor"));
  }
  return places;
}

/// Returns one number if all are equal, otherwise all separated by commas; empty for none.
std::string option_list(const std::vector<double>& values, int decimals) {
  const bool same = std::ranges::adjacent_find(values, std::ranges::not_equal_to()) == values.end();
  std::string list;
  for (const double one : values) {
    list += (list.empty() ? "" : ",") + shortest(one, decimals);
    if (same) break;
  }
  return list;
}

std::string seconds_of(const std::vector<Seconds>& times) {
  std::vector<double> values;
  for (const Seconds one : times) values.push_back(one.value);
  constexpr int kNanoseconds = 9;
  return option_list(values, kNanoseconds);
}

}  // namespace

ProfileWatch::ProfileWatch(Options options, Instant start) : options_(options), start_(start) {}

std::vector<std::string> ProfileWatch::look(std::string_view given, Instant now) {
  std::vector<std::string> lines;
  const Json status = parsed(given);
  registered_ = count_of(status, "ranks_registered");
  ranks_ = count_of(status, "ranks");
  not_set_ = count_of(status, "ranks_not_set");
  was_refused_ = was_refused_ || not_set_ > 0;
  const std::string phase = text_in(status, "phase");
  if (registered_ == 0 && state_ == State::kNoRank) {
    if (!hinted_ && now - start_ > options_.unheard_for) {
      hinted_ = true;
      lines.push_back("no rank has registered yet; " + how_ranks_take_part());
    }
    return lines;
  }
  if (state_ == State::kNoRank) {
    state_ = State::kGathering;
    said_ = now;
  }
  if (state_ == State::kGathering && phase == "registering") {
    if (now - *said_ >= options_.between) {
      said_ = now;
      lines.push_back(std::to_string(registered_) + " of " + counted(ranks_, "rank") +
                      " are registered; missing: " + missing_ranks(status));
    }
    return lines;
  }
  const Json& profiling = member(status, "profiling");
  if (profiling.is_object()) {
    clocks_ = count_of(profiling, "clocks");
    clocks_left_ = count_of(profiling, "clocks_left");
    iterations_left_ = count_of(profiling, "iterations_left");
    time_left_ = {number_in(profiling, "time_left_s").value_or(0)};
    slowdown_ = number_in(profiling, "slowdown").value_or(0);
    if (state_ == State::kGathering) {
      state_ = State::kProfiling;
      gathered_ = said_ = now;
      lines.push_back("all " + counted(ranks_, "rank") + " are registered: " + shape_of(status) +
                      "; measuring " +
                      (options_.as_is ? "at the present clock of the GPUs: no clock is set"
                                      : counted(clocks_, "clock") + ", with training at most " +
                                            percentage(options_.slowdown_limit) + " longer"));
    } else if (now - *said_ >= options_.between) {
      said_ = now;
      const double iteration = number_in(status, "iteration_time_s").value_or(0);
      lines.push_back(progress_line(iteration > 0 ? seconds_text(iteration) : ""));
    }
  } else if (phase != "registering" && !phase.empty()) {
    state_ = State::kDone;
  }
  return lines;
}

std::string ProfileWatch::progress_line(std::string_view iteration) const {
  std::string line =
      std::to_string(clocks_ - clocks_left_) + " of " + std::to_string(clocks_) + " clocks";
  if (!iteration.empty()) line += ", iterations of " + std::string(iteration);
  line += ", training " + percentage(slowdown_) + " longer so far";
  if (not_set_ > 0) return line + "; no clock is set on " + counted(not_set_, "rank");
  if (time_left_ > Seconds{0}) line += "; about " + rough_time(time_left_) + " to go";
  return line;
}

std::vector<std::string> ProfileWatch::warnings(std::string_view log) {
  std::vector<std::string> lines;
  const Json document = parsed(log);
  const Json& events = member(document, "events");
  for (const Json& event : events) {
    const auto sequence = static_cast<std::int64_t>(number_in(event, "sequence").value_or(0));
    if (sequence <= events_) continue;
    events_ = sequence;
    if (text_in(event, "kind") == "warning") lines.push_back(text_in(event, "text"));
  }
  return lines;
}

std::string ProfileWatch::so_far() const {
  switch (state_) {
    case State::kNoRank:
      return "no rank has registered: " + how_ranks_take_part();
    case State::kGathering:
      return "only " + std::to_string(registered_) + " of " + counted(ranks_, "rank") +
             " have registered";
    case State::kProfiling:
    case State::kDone:
      break;
  }
  if (was_refused_ && clocks_left_ == clocks_)
    return "no clock was set; the standard error of the ranks states the reason";
  return (options_.as_is ? std::string("not every stage is measured, ")
                         : std::to_string(clocks_ - clocks_left_) + " of " +
                               std::to_string(clocks_) + " clocks are measured, ") +
         (time_left_ > Seconds{0} ? "about " : "at least ") +
         counted(iterations_left_, "iteration") + " more are needed";
}

std::string how_ranks_take_part() {
  return "a script reports to Harpe by harpe.start(...) with client.forward() and "
         "client.backward() around its computations, by a hook (harpe.torch_pipelining, "
         "harpe.megatron, harpe.deepspeed, harpe.huggingface: docs/python.md), or in C++ and C by "
         "the client of docs/client.md; a script that names a server itself reports to that server";
}

bool can_be_planned(const Profile& profile, int stages) {
  std::set<int> known;
  for (const InstructionProfile& entry : profile.entries()) {
    if (entry.points.size() < 2) return false;
    known.insert(entry.stage);
  }
  return known.size() == static_cast<std::size_t>(stages);
}

std::string profile_summary(const Profile& profile) {
  std::set<Megahertz> clocks;
  for (const InstructionProfile& entry : profile.entries())
    for (const OperatingPoint& point : entry.points) clocks.insert(point.clock);
  std::string summary = counted(profile.stages(), "stage") + ", " +
                        counted(static_cast<int>(profile.entries().size()), "instruction");
  if (clocks.empty()) return summary;
  if (clocks.size() == 1) return summary + ", at " + std::to_string(clocks.begin()->value) + " MHz";
  return summary + ", " + counted(static_cast<int>(clocks.size()), "clock") + " from " +
         std::to_string(clocks.rbegin()->value) + " to " + std::to_string(clocks.begin()->value) +
         " MHz";
}

std::vector<std::string> doubts_of(const Profile& profile,
                                   const std::vector<Watts>& blocking_power) {
  std::vector<std::string> doubts;
  for (int stage = 0; stage < static_cast<int>(blocking_power.size()); ++stage) {
    const Watts waiting = blocking_power[static_cast<std::size_t>(stage)];
    Watts highest{0};
    for (const InstructionProfile& entry : profile.entries()) {
      if (entry.stage != stage) continue;
      const OperatingPoint& all_max = all_max_point(entry.points);
      highest = std::max(highest, all_max.energy / all_max.time);
    }
    if (waiting < highest * kMostOfComputing && waiting > Watts{0}) continue;
    doubts.push_back("GPUs of stage " + std::to_string(stage) + " seem to draw " +
                     fixed(waiting.value, 0) + " W while they wait, and " +
                     fixed(highest.value, 0) +
                     " W while they compute: measure longer, or give --blocking-power another "
                     "value (A100: 83.64, A40: 70.38)");
  }
  double noise = 0;
  for (const InstructionCheck& one : check_profile(profile).instructions)
    noise = std::max({noise, one.time_noise, one.energy_noise});
  if (noise >= kNoisyProfile) {
    const char* const usual =
        profile.is_synthetic() ? ", usual for simulated GPUs beside other work" : "";
    doubts.push_back("the measurements scatter by " + percentage(noise) + " around their curves" +
                     usual +
                     ": measure longer, or while nothing else runs on the "
                     "machine (harpe profile check lists the instructions)");
  }
  return doubts;
}

std::vector<std::string> plan_words(const JobSpec& spec, const std::string& schedule,
                                    const std::string& profile,
                                    const std::vector<Watts>& blocking_power) {
  std::vector<std::string> words{"harpe", "plan", "--profile", profile, "--schedule", schedule};
  const auto add = [&](const char* option, std::string value) {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(std::move(value));
  };
  const auto& all = schedule_generators();
  const auto generator = std::ranges::find(all, schedule, &ScheduleGenerator::name);
  if (generator != all.end()) {
    add("--micro-batches", std::to_string(spec.schedule.micro_batches));
    if (generator->uses_chunks) add("--chunks", std::to_string(spec.schedule.chunks()));
  }
  std::vector<double> watts;
  for (const Watts one : blocking_power) watts.push_back(one.value);
  add("--blocking-power", option_list(watts, kDecimalsOfWatts));
  if (spec.shape.tensor > 1) add("--gpus-per-stage", std::to_string(spec.shape.tensor));
  add("--transfer-forward", seconds_of(spec.transfers.forward));
  add("--transfer-backward", seconds_of(spec.transfers.backward));
  if (spec.transfers.mode == Transfers::Mode::kRendezvous) add("--transfer-mode", "rendezvous");
  add("--load", seconds_of(spec.fixed_times.load));
  add("--reduce", seconds_of(spec.fixed_times.reduce));
  add("--optimizer", seconds_of(spec.fixed_times.optimizer));
  if (spec.switch_latency.is_table()) {
    add("--switch-latency", plan::latency_table_of(profile).string());
  } else if (const Seconds latency = spec.switch_latency.longest(); latency > Seconds{0}) {
    add("--switch-latency", seconds_of({latency}));
  }
  if (spec.min_dwell > Seconds{0}) add("--min-dwell", seconds_of({spec.min_dwell}));
  if (spec.fit) words.emplace_back("--fit");
  const std::string folder = std::filesystem::path(profile).stem().string() + "-plan";
  words.insert(words.end(), {"--out", folder});
  return words;
}

}  // namespace harpe::command
