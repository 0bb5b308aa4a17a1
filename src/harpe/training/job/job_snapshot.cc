#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/job_status_json.h"
#include "harpe/training/job/measurements_json.h"
#include "harpe/training/job/rank_book.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

constexpr std::array kPhases = {"registering", "profiling",  "characterizing",
                                "running",     "straggling", "observing"};
constexpr const char* kFormat = "harpe.job/2";
constexpr std::int64_t kLargestNumber = 9'000'000'000'000'000;
constexpr double kLatest = 1e12;  // s since 1970
/// Ranks may know versions newer than the last snapshot.
constexpr std::uint64_t kVersionsSkipped = 1000;

/// Returns a list of clocks for each stage, or the number of an earlier stage with the same list.
Json clock_lists_json(const JobShape& shape, const RankBook& ranks) {
  Json lists = Json::array();
  std::map<std::vector<Megahertz>, int> known;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto [same, is_new] = known.emplace(ranks.clocks(stage), stage);
    lists.push_back(is_new ? clocks_json(ranks.clocks(stage)) : Json(same->second));
  }
  return lists;
}

std::vector<std::vector<Megahertz>> read_clock_lists(Fields& fields, std::string_view key,
                                                     std::size_t size) {
  std::vector<std::vector<Megahertz>> lists(size);
  const JsonValue* value = fields.any(key);
  if (value == nullptr || value->type != Type::kArray || value->items.size() != size) {
    fields.error(key, "expected " + std::to_string(size) + " lists of clocks");
    return lists;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const JsonValue& list = value->items[i];
    if (list.is_integer && list.integer >= 0 && list.integer < static_cast<std::int64_t>(i)) {
      lists[i] = lists[static_cast<std::size_t>(list.integer)];
      continue;
    }
    for (const JsonValue& item : list.items) {
      if (!item.is_integer || item.integer < 1 || item.integer > kHighestClock) {
        fields.error(key, "a clock is a whole number of MHz from 1 to 100000");
        return lists;
      }
      lists[i].push_back({static_cast<int>(item.integer)});
    }
  }
  return lists;
}

/// Reads a holder from an item that is not null.
bool read_holder(const JsonValue& item, const std::vector<std::string>& gpus,
                 RankBook::Holder& holder) {
  if (item.type != Type::kArray || item.items.size() < 2 || item.items[0].type != Type::kString ||
      !item.items[1].is_integer) {
    return false;
  }
  const auto gpu = static_cast<std::uint64_t>(item.items[1].integer);
  if (gpu >= gpus.size()) return false;
  holder.session = item.items[0].string;
  holder.gpu = gpus[gpu];
  holder.ended = item.items.size() > 2 && item.items[2].number == 1;
  if (item.items.size() > 3) holder.power_limit.value = std::max(0.0, item.items[3].number);
  holder.asks_ahead = item.items.size() > 4 && item.items[4].number == 1;
  return true;
}

/// Returns the name of a part: the holders of some hundred ranks, stored together so that a rank
/// that registers does not write all of them again.
std::string holders_part(std::size_t part) {
  return "ranks " + std::to_string(part);
}

/// Returns the data that ranks share: the run, the clocks of stages, and if any GPU is simulated.
Json ranks_json(const JobShape& shape, const RankBook& ranks) {
  Json json = {{"run", ranks.run()}, {"clocks_mhz", clock_lists_json(shape, ranks)}};
  if (ranks.has_simulated()) json["simulated"] = true;
  return json;
}

/// Returns the holders of a part in the order of their ranks: [session, index of the GPU's name, 1
/// if it has ended, power limit, 1 if it requests clocks ahead], without zeros at the end, and null
/// for a place without a rank.
std::string holders_text(const RankBook& ranks, std::size_t part) {
  const std::size_t first = part * RankHolders::kOfPart;
  const std::size_t last = first + ranks.holders().size_of_part(part);
  Json list = Json::array(), gpus = Json::array();
  std::map<std::string, std::size_t> names;
  for (std::size_t i = first; i < last; ++i) {
    const RankBook::Holder& holder = ranks.holders()[i];
    if (!holder.registered()) {
      list.push_back(nullptr);
      continue;
    }
    const auto [name, is_new] = names.emplace(holder.gpu, names.size());
    if (is_new) gpus.push_back(holder.gpu);
    list.push_back({holder.session, name->second});
    const bool has_limit = holder.power_limit > Watts{0};
    const bool asks = holder.asks_ahead;
    if (holder.ended || has_limit || asks) list.back().push_back(holder.ended ? 1 : 0);
    if (has_limit || asks) list.back().push_back(holder.power_limit.value);
    if (asks) list.back().push_back(1);
  }
  return json_line({{"gpus", std::move(gpus)}, {"ranks", std::move(list)}});
}

Status read_holders(const std::string& text, std::size_t part, RankHolders& holders) {
  const JsonValue document = HARPE_TRY(parse_json(text, "ranks"));
  return read_object(
      document, "ranks", "ranks", Unknown::kIgnored, [&](Fields& fields, Diagnostics&) {
        const auto gpus = fields.texts("gpus").value_or(std::vector<std::string>());
        const JsonValue* list = fields.any("ranks");
        const std::size_t first = part * RankHolders::kOfPart;
        const std::size_t size = holders.size_of_part(part);
        bool good = list != nullptr && list->type == Type::kArray && list->items.size() == size;
        for (std::size_t i = 0; good && i < size; ++i) {
          const JsonValue& item = list->items[i];
          good = item.type == Type::kNull || read_holder(item, gpus, holders.place(first + i));
        }
        if (!good) fields.error("ranks", "expected one for each rank");
      });
}

/// \param holders  from `read_holders`
/// \param heard    time of the newest message of any rank
void read_ranks(const JsonValue& object, Diagnostics& diagnostics, const JobShape& shape,
                RankHolders holders, Seconds heard, RankBook& ranks) {
  Fields fields(object, "ranks", diagnostics);
  std::string run = fields.text("run").value_or("");
  auto clocks = read_clock_lists(fields, "clocks_mhz", static_cast<std::size_t>(shape.stages));
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const std::size_t stage = i / shape.tensor % shape.stages;
    if (!holders[i].registered()) continue;
    if (clocks[stage].empty()) {
      return fields.error("clocks_mhz", "a stage with ranks has no clocks");
    }
    // The silence of single ranks is not stored: see `RankBook::count_silence_from`.
    holders.place(i).heard = heard;
  }
  ranks.restore(std::move(run), std::move(holders), std::move(clocks),
                fields.boolean("simulated").value_or(false));
}

Json straggler_json(const plan::Straggler& straggler) {
  Json json = {{"pipeline", straggler.pipeline}, {"factor", straggler.factor}};
  if (straggler.until) json["until"] = straggler.until->value;
  return json;
}

std::vector<plan::Straggler> read_stragglers(Fields& parent, std::string_view key,
                                             Diagnostics& diagnostics, int pipelines) {
  std::vector<plan::Straggler> stragglers;
  for (const JsonValue* item : parent.objects(key)) {
    Fields fields(*item, "a straggler", diagnostics);
    plan::Straggler one;
    one.pipeline =
        static_cast<int>(needed(fields, "pipeline", fields.integer("pipeline", 0, pipelines - 1)));
    one.factor = fields.number("factor", 1, plan::kMostStragglerFactor).value_or(1);
    if (const auto until = fields.number("until", 0, kLatest)) one.until = Seconds{*until};
    stragglers.push_back(one);
  }
  return stragglers;
}

Json slow_pipelines_json(const std::vector<WatchedPipeline>& watched) {
  Json list = Json::array();
  for (const WatchedPipeline& one : watched)
    list.push_back({{"pipeline", one.slow.pipeline}, {"factors", numbers(one.slow.factors)}});
  return list;
}

/// Returns the factors of each stage by pipeline.
std::vector<std::pair<int, std::vector<double>>> read_slow_pipelines(Fields& parent,
                                                                     Diagnostics& diagnostics,
                                                                     JobShape shape) {
  std::vector<std::pair<int, std::vector<double>>> slow;
  for (const JsonValue* item : parent.objects("slow_pipelines")) {
    Fields fields(*item, "a slow pipeline", diagnostics);
    const auto pipeline =
        static_cast<int>(needed(fields, "pipeline", fields.integer("pipeline", 0, shape.data - 1)));
    std::vector<double> factors =
        read_list(fields, "factors", static_cast<std::size_t>(shape.stages));
    const bool sound = std::ranges::all_of(
        factors, [](double factor) { return factor > 0 && factor <= plan::kMostStragglerFactor; });
    if (!sound) fields.error("factors", "expected numbers above 0");
    if (sound) slow.emplace_back(pipeline, std::move(factors));
  }
  return slow;
}

Json asked_json(const AskedPause& asked) {
  Json json = {{"asked", asked.asked.value}};
  if (asked.paused) json["paused"] = asked.paused->value;
  if (asked.is_placed()) {
    json.update({{"number", asked.request.number}, {"from", asked.from}, {"bound", asked.bound}});
  }
  return json;
}

template <class Number>
void read_count(Fields& fields, std::string_view key, Number& value) {
  if (const auto given = fields.integer(key, 0, kLargestNumber))
    value = static_cast<Number>(*given);
}

}  // namespace

std::string Job::snapshot() const {
  const State& s = *state_;
  Json declared = Json::array();
  for (const plan::Straggler& one : s.declared_stragglers) declared.push_back(straggler_json(one));
  Json json = {{"format", kFormat},
               {"incarnation", s.incarnation},
               {"start", s.start},
               {"has_plans", s.plans != nullptr},
               {"phase", name_of(s.phase_name())},
               {"ranks", ranks_json(s.spec.shape, s.ranks)},
               {"version", s.version},
               {"ticket", s.ticket},
               {"objective", own_json(objective_json(s.objective))},
               {"declared", std::move(declared)},
               {"slow_pipelines", slow_pipelines_json(s.watched_pipelines)},
               {"iteration_time_s", s.iteration_time.value},
               {"delivery_s", s.delivery.value},
               {"baseline", baseline_json(s.baseline)},
               {"rollbacks", s.rollbacks},
               {"rolled_back", s.retry_at.has_value()},
               {"retry_at", s.retry_at.value_or(0)},
               {"reserve", s.reserve},
               {"profiling_began", s.profiling_began},
               {"last_profiling", s.last_profiling},
               {"savings", savings_json(s.savings)},
               {"energy_j", s.reported_energy.value},
               {"newest_iteration", s.newest_iteration()},
               {"created", s.created.value},
               {"heard", s.heard.value},
               {"reports", s.reports},
               {"reports_unused", s.reports_unused},
               {"reports_refused", s.reports_refused},
               {"energies_refused", s.energies_refused},
               {"assignments_late", s.assignments_late}};
  if (s.plans_for == plan::ClockClient::kHarpe) json["plans_ask_ahead"] = true;
  if (s.late_clocks.learned() > Seconds{0})
    json["learned_latency_s"] = s.late_clocks.learned().value;
  if (s.pace) json["pace"] = own_json(pace_json(*s.pace));
  if (s.pauses > 0) json["pauses"] = s.pauses;
  if (s.asked) json["asked_pause"] = asked_json(*s.asked);
  if (s.ended) json["ended"] = s.ended->value;
  if (s.profile) json["profile"] = profile_csv(*s.profile);
  if (!s.blocking_power.empty()) json["blocking_power_w"] = numbers(s.blocking_power);
  if (!s.measured.empty()) json["measured"] = measured_json(s.measured);
  if (!s.highest_measured.empty()) json["highest_measured_mhz"] = clocks_json(s.highest_measured);
  if (s.plans_due) json["plans_due"] = true;
  if (const Observing* now = s.observing())
    json["observing"] = observation_json(now->observation, now->estimate);
  if (const auto kept = s.kept_profiling()) json["profiler"] = kept_json(*kept);
  return json_line(json);
}

std::map<std::string, std::string> Job::take_changed_parts() {
  std::map<std::string, std::string> parts;
  for (const std::size_t part : state_->ranks.take_changed_parts()) {
    parts[holders_part(part)] = holders_text(state_->ranks, part);
  }
  if (std::exchange(state_->specification_changed, false)) {
    parts[kSpecificationPart] = state_->specification_text;
  }
  return parts;
}

JobTexts Job::texts() const {
  JobTexts texts{.state = snapshot(), .parts = {}, .heard = state_->heard};
  texts.parts[kSpecificationPart] = state_->specification_text;
  for (std::size_t part = 0; part < state_->ranks.parts(); ++part) {
    texts.parts[holders_part(part)] = holders_text(state_->ranks, part);
  }
  return texts;
}

/// Reads the requests and declarations of users.
void Job::State::read_wanted(Fields& fields, Diagnostics& diagnostics) {
  if (const JsonValue* wanted = fields.object("objective")) {
    Fields members(*wanted, "objective", diagnostics);
    objective = read_objective(members);
  }
  if (const JsonValue* paced = fields.object("pace")) {
    Fields members(*paced, "the pace", diagnostics);
    pace = read_pace(members);
    pace_logged = pace->iteration_time.value_or(Seconds{0});
  }
  read_count(fields, "pauses", pauses);
  if (const JsonValue* stored = fields.object("asked_pause")) {
    Fields members(*stored, "the pause", diagnostics);
    read_asked(members);
  }
  declared_stragglers = read_stragglers(fields, "declared", diagnostics, spec.shape.data);
  for (auto& [slow, factors] : read_slow_pipelines(fields, diagnostics, spec.shape))
    watch(slow).slow.factors = std::move(factors);
}

constexpr double kMostLearned = 10;  // s

/// Reads the history of plans and the counters.
void Job::State::read_history(Fields& fields, Diagnostics& diagnostics, Seconds now) {
  read_count(fields, "rollbacks", rollbacks);
  std::int64_t until = 0;
  read_count(fields, "retry_at", until);
  if (fields.boolean("rolled_back").value_or(false)) retry_at = until;
  reserve = fields.number("reserve", 0, 1).value_or(0);
  if (fields.boolean("plans_ask_ahead").value_or(false)) plans_for = plan::ClockClient::kHarpe;
  late_clocks.learn(Seconds{fields.number("learned_latency_s", 0, kMostLearned).value_or(0)});
  read_count(fields, "profiling_began", profiling_began);
  read_count(fields, "last_profiling", last_profiling);
  read_savings(fields, diagnostics, savings);
  reported_energy.value = fields.number("energy_j", -kMostEnergy, kMostEnergy).value_or(0);
  newest_stored = fields.integer("newest_iteration", -1, kLargestNumber).value_or(-1);
  created.value = fields.number("created", 0, kLatest).value_or(now.value);
  if (incarnation.empty()) incarnation = "since " + shortest(created.value);
  read_count(fields, "reports", reports);
  read_count(fields, "reports_unused", reports_unused);
  read_count(fields, "reports_refused", reports_refused);
  read_count(fields, "energies_refused", energies_refused);
  read_count(fields, "assignments_late", assignments_late);
}

/// Reads the known costs of instructions.
void Job::State::read_costs(Fields& fields, Diagnostics& diagnostics) {
  if (const auto csv = fields.text("profile")) {
    Result<Profile> read = parse_profile(*csv, "profile");
    if (!read.ok()) {
      fields.error("profile", read.error().text());
    } else if (read->stages() > spec.shape.stages) {
      fields.error("profile", "it has more stages than the job");
    } else {
      profile = std::move(*read);
    }
  }
  if (fields.any("blocking_power_w") != nullptr) {
    blocking_power = units<Watts>(
        read_list(fields, "blocking_power_w", static_cast<std::size_t>(spec.shape.stages)));
  }
  if (const JsonValue* list = fields.any("measured"))
    measured = read_measured(list, diagnostics, work);
  if (fields.any("highest_measured_mhz") != nullptr) {
    highest_measured =
        read_clocks(fields, "highest_measured_mhz", static_cast<std::size_t>(spec.shape.stages));
    if (highest_measured.size() != static_cast<std::size_t>(spec.shape.stages))
      fields.error("highest_measured_mhz", "expected one for each stage");
  }
  plans_due = fields.boolean("plans_due").value_or(false) && profile && !blocking_power.empty();
  if (const JsonValue* kept = fields.object("profiler"))
    phase = Registering{.interrupted = read_kept(*kept, diagnostics, work)};
  if (asleep == JobPhase::kObserving) {
    Observing now{.observation = Observation(spec.shape, work)};
    if (const JsonValue* stored = fields.object("observing"))
      read_observation(*stored, diagnostics, now.observation, now.estimate);
    phase = std::move(now);
  }
}

Result<Job> Job::read(JobTexts texts, std::optional<plan::PlanTable> plans, Seconds now) {
  JsonValue document = HARPE_TRY(parse_json(texts.state, "job"));
  Diagnostics diagnostics("job");
  Fields fields(document, "the job", diagnostics);
  if (fields.text("format").value_or("") != kFormat) {
    fields.error("format", std::string("expected '") + kFormat + "'");
    return Error::invalid(std::move(diagnostics));
  }
  JobSpec spec = HARPE_TRY(parse_job_spec(texts.parts[kSpecificationPart], Unknown::kIgnored));
  Result<Job> job = create(std::move(spec), now);
  if (!job.ok()) return job;
  State& s = *job->state_;
  s.effects = {};
  s.asleep = JobPhase::kRegistering;
  s.specification_changed = false;
  s.heard = {std::max(fields.number("heard", 0, kLatest).value_or(0), texts.heard.value)};
  // The stored time may be of another clock, or from before a step; it must not be in the future.
  s.heard = std::min(s.heard, now);
  if (const auto ended = fields.number("ended", 0, kLatest)) s.ended = Seconds{*ended};
  RankHolders holders(static_cast<std::size_t>(s.spec.shape.ranks()));
  for (std::size_t part = 0; part < s.ranks.parts(); ++part) {
    const auto text = texts.parts.find(holders_part(part));
    if (text == texts.parts.end()) continue;
    HARPE_TRY(read_holders(text->second, part, holders));
  }
  if (const auto phase = fields.word("phase", {kPhases.begin(), kPhases.end()}))
    s.asleep = static_cast<JobPhase>(*phase);
  if (const JsonValue* ranks = fields.object("ranks"))
    read_ranks(*ranks, diagnostics, s.spec.shape, std::move(holders), s.heard, s.ranks);
  // Older snapshots lack the incarnation and the start, which follow from other members.
  s.incarnation = fields.text("incarnation").value_or("");
  read_count(fields, "start", s.start);
  if (s.start == 0 && s.ranks.registered() > 0) s.start = 1;
  const bool has_plans = fields.boolean("has_plans").value_or(true);
  read_count(fields, "version", s.version);
  read_count(fields, "ticket", s.ticket);
  s.read_wanted(fields, diagnostics);
  s.iteration_time.value = fields.number("iteration_time_s", 0, kLongestTime).value_or(0);
  s.delivery.value = fields.number("delivery_s", 0, 60).value_or(s.delivery.value);
  if (const JsonValue* baseline = fields.object("baseline"))
    read_baseline(*baseline, diagnostics, static_cast<std::size_t>(s.spec.shape.stages),
                  s.baseline);
  s.read_history(fields, diagnostics, now);
  s.read_costs(fields, diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  if (plans && has_plans && !s.blocking_power.empty() && s.fits(*plans))
    s.plans = std::make_shared<const plan::PlanTable>(std::move(*plans));
  return job;
}

void Job::go_on(Seconds now) {
  if (const auto stored = std::exchange(state_->asleep, std::nullopt)) state_->go_on(*stored, now);
}

void Job::State::go_on(JobPhase stored, Seconds now) {
  newest_event = now;
  taken_up = now;
  redeploy = true;  // the iteration of the ranks is not known
  ranks.count_silence_from(now);
  away.assign(away.size(), true);
  version += kVersionsSkipped;
  search_ticket = ++ticket;
  if (plans && profile && !blocking_power.empty()) take_profile(*profile, blocking_power);
  for (const plan::Straggler& one : declared_stragglers) declare(one);
  // The measured factors of slow pipelines hold until their times differ.
  for (const WatchedPipeline& one : watched_pipelines) {
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      detector.assume(spec.shape.group(one.slow.pipeline, stage), one.slow.factors[stage]);
  }
  if (plans) {
    for (WatchedPipeline& one : watched_pipelines) measure(one);
  } else {
    watched_pipelines.clear();
  }
  if (!ranks.complete()) {
    redeploy = false;
    return;
  }
  switch (stored) {
    case JobPhase::kRegistering:
    case JobPhase::kObserving:
      redeploy = false;
      return;
    case JobPhase::kProfiling:
      if (auto kept = kept_profiling()) {
        resume_profiling(*std::move(kept), now, "the server has started again");
      } else {
        start_profiling({}, now, "its measurements are lost");
      }
      break;
    case JobPhase::kCharacterizing:
      if (profile && !blocking_power.empty()) {
        request_plans(*profile, blocking_power, now);
      } else {
        start_profiling({}, now, "its measurements are lost");
      }
      break;
    case JobPhase::kRunning:
    case JobPhase::kStraggling:
      phase = Running{.straggling = stored == JobPhase::kStraggling};
      if (!plans && plans_due) {
        request_plans(*profile, blocking_power, now);
      } else if (!plans || retry_at) {
        deploy_all_max();
      } else {
        deploy_choice(now, "the server has started again");
      }
      if (plans && plans_due) ask_for_plans();
      break;
  }
  // Nothing changes before the first report shows the iteration of the ranks.
  effects.assignments = false;
  if (!deployments.empty()) deployments.back().from = kNever;
}

}  // namespace harpe::training
