#include "harpe/training/server/zeus_routes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/json_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/likely_instruction.h"
#include "harpe/training/job/job.h"
#include "harpe/training/server/job_routes.h"
#include "harpe/training/wire/rank_events.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr Seconds kLongestIdle{7.0 * 24 * 3600};
constexpr std::size_t kMostJobs = 10'000;

constexpr const char* kWhatToGive =
    "job_metadata must name the plan to use: the id of a job of this server (PUT /v1/jobs/ID), or "
    "a JSON object such as {\"schedule\": \"1f1b\", \"micro_batches\": 8}; docs/server.md";

/// Maximum number of iterations skipped when new assignments are issued. The job takes ranks with a
/// larger gap for ranks that have lost count.
constexpr std::int64_t kMostLeftOut = 2;

/// Prefixes of paths that continue with an id, with their methods.
constexpr std::pair<std::string_view, std::string_view> kBelow[] = {
    {"/register_rank/", "POST"}, {"/schedule/", "GET"}, {"/result/", "POST"}};

// --- Results of ranks ---------------------------------------------------------------------------

constexpr std::size_t kMostIterations = 100'000;  // in one result

/// Returns the entries of iteration `i`; null if the result has none.
const std::vector<double>* of_iteration(const ZeusBreakdown& breakdown, const std::string& name,
                                        std::size_t i) {
  const auto found = breakdown.find(name);
  if (found == breakdown.end() || i >= found->second.size()) return nullptr;
  return &found->second[i];
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

/// Returns an error unless the numbers are times and energies, the instructions are known, and the
/// lists have one length.
Status check_zeus_result(const ZeusResult& result) {
  if (result.iteration_time.empty()) return Error::invalid("iter_time is empty");
  if (result.iteration_time.size() > kMostIterations) {
    return Error::invalid("more than " + std::to_string(kMostIterations) + " iterations at once");
  }
  if (result.iteration_energy.size() != result.iteration_time.size()) {
    return Error::invalid("iter_time and iter_energy have different lengths");
  }
  const auto is_time = [](double value) { return value > 0 && value < 1e9; };
  const auto is_amount = [](double value) { return value >= 0 && value < 1e18; };
  // The job decides which energies are possible.
  const auto is_number = [](double value) { return std::abs(value) < 1e18; };
  bool good = std::ranges::all_of(result.iteration_time, is_time) &&
              std::ranges::all_of(result.iteration_energy, is_number);
  for (const ZeusBreakdown* breakdown : {&result.time, &result.energy}) {
    for (const auto& [name, iterations] : *breakdown) {
      if (!instruction_kind(name)) {
        const auto likely = plan::likely_instruction(name);
        return Error::invalid("unknown instruction " + in_quotes(name) +
                              (likely ? "; did you mean '" + *likely + "'?" : ""));
      }
      if (iterations.size() != result.iteration_time.size()) {
        return Error::invalid("the breakdown of " + name + " does not have one list per iteration");
      }
      const bool is_time_of = breakdown == &result.time;
      for (const auto& values : iterations) {
        good = good && values.size() <= kMostIterations &&
               (is_time_of ? std::ranges::all_of(values, is_amount)
                           : std::ranges::all_of(values, is_number));
      }
    }
  }
  if (!good) return Error::invalid("times are positive numbers of s, energies numbers of J");
  return ok_status();
}

/// Returns the `i`-th iteration of a checked result, without coordinates, session, iteration number
/// and version. The energies of an instruction are NaN unless there is one for each time.
IterationReport report_of_zeus_result(const ZeusResult& result, std::size_t i) {
  IterationReport report;
  report.time = Seconds{result.iteration_time[i]};
  report.energy = Joules{result.iteration_energy[i]};
  for (const auto& [name, iterations] : result.time) {
    const std::vector<double>& times = iterations[i];
    if (times.empty()) continue;
    const std::vector<double>* energies = of_iteration(result.energy, name, i);
    const bool measured = energies != nullptr && energies->size() == times.size();
    report.instructions.push_back(
        {.kind = *instruction_kind(name),
         .count = static_cast<int>(times.size()),
         .time = Seconds{sum(times)},
         .energy = Joules{measured ? sum(*energies) : std::numeric_limits<double>::quiet_NaN()}});
  }
  return report;
}

// --- Names of trainings and sessions ------------------------------------------------------------

// The id of a training of Zeus's clients is `TIME+dpD+ppP+tpT+PointSolution`, with its degrees,
// then `+JOB`, the id of the job whose plans it runs, unless the job has the id of the training
// itself. A participating rank holds its place in the job by the session `zeus ID RANK`; the run ID
// of the job is the id of the training.
constexpr std::string_view kPointSolution = "+PointSolution";

std::string session_start(const std::string& training) {
  return "zeus " + training + " ";
}

std::string degrees(const JobShape& shape) {
  return "+dp" + std::to_string(shape.data) + "+pp" + std::to_string(shape.stages) + "+tp" +
         std::to_string(shape.tensor) + std::string(kPointSolution);
}

/// Returns the part after the time in the id of a training.
std::string zeus_training_ending(const JobShape& shape, std::string_view job) {
  std::string ending = degrees(shape);
  if (!job.empty()) ending.append("+").append(job);
  return ending;
}

/// Returns the id of the job whose plans a training runs. Accepts any text.
std::string job_of_zeus_training(const std::string& id) {
  const std::size_t end = id.find(kPointSolution);
  const std::size_t ending = end + kPointSolution.size() + 1;
  return end == std::string::npos || ending >= id.size() ? id : id.substr(ending);
}

/// Returns true if the id has these degrees.
bool names_degrees(const std::string& id, const JobShape& shape) {
  const std::size_t end = id.find(kPointSolution);
  return end != std::string::npos &&
         std::string_view(id).substr(0, end + kPointSolution.size()).ends_with(degrees(shape));
}

/// Returns the session by which a rank of a training holds its place.
std::string zeus_session(const std::string& training, int rank) {
  return session_start(training) + std::to_string(rank);
}

/// Returns the ranks of this training that hold places of the job. O(ranks), O(1) if there are
/// none.
std::map<int, RankCoordinates> ranks_of_zeus_training(const Job& job, const std::string& training) {
  std::map<int, RankCoordinates> ranks;
  if (job.run() != training) return ranks;
  const JobShape& shape = job.spec().shape;
  const std::string start = session_start(training);
  for (int data = 0; data < shape.data; ++data) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int tensor = 0; tensor < shape.tensor; ++tensor) {
        const RankCoordinates coordinates{.data = data, .stage = stage, .tensor = tensor};
        const std::string& session = job.session(coordinates);
        if (!session.starts_with(start)) continue;
        const auto rank = parse_integer(std::string_view(session).substr(start.size()));
        if (rank && *rank >= 0 && *rank < shape.ranks())
          ranks[static_cast<int>(*rank)] = coordinates;
      }
    }
  }
  return ranks;
}

// --- Requests and responses ---------------------------------------------------------------------

JobShape shape_of(const ZeusJobInfo& info) {
  return {.data = info.dp_degree, .stages = info.pp_degree, .tensor = info.tp_degree};
}

bool brings_specification(const ZeusJobInfo& info) {
  return info.metadata && trim(*info.metadata).starts_with('{');
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H-%M-%S", &local);
  return text.data();
}

/// Returns the body of PUT /v1/jobs for metadata that is a JSON object, or an error.
Result<std::string> specification(const ZeusJobInfo& info) {
  net::OrderedJson object = net::OrderedJson::object();
  {
    // The strict parser runs first: it limits nesting and detects duplicate names.
    HARPE_TRY(parse_json(*info.metadata, "job_metadata"));
    object = json_or_discarded(*info.metadata);
    if (!object.is_object()) return Error::invalid("job_metadata is not a JSON object");
  }
  for (auto member = object.begin(); member != object.end();) {
    member = member->is_null() ? object.erase(member) : std::next(member);
  }
  for (const auto& [name, degree] : {std::pair{"data", info.dp_degree},
                                     {"stages", info.pp_degree},
                                     {"tensor", info.tp_degree}}) {
    if (object.contains(name) && object[name] != degree) {
      return Error::invalid("job_metadata states " + std::string(name) + " is " +
                            json_line(object[name]).substr(0, 40) + ", but the degrees give " +
                            std::to_string(degree));
    }
    object[name] = degree;
  }
  return json_line(object);
}

net::HttpResponse wrong_zeus_method(const std::string& allowed) {
  net::HttpResponse response = zeus_error(405, "Method Not Allowed");
  response.headers.emplace_back("Allow", allowed);
  return response;
}

net::HttpResponse not_registered(int rank) {
  return zeus_error(400, "rank " + std::to_string(rank) +
                             " has not registered: POST /register_rank/ID first, or start the "
                             "training again");
}

std::string schedule_text(const Job& job, int rank, RankCoordinates coordinates,
                          const StageAssignment& assignments) {
  const auto& list = job.spec().schedule.lists[coordinates.stage];
  net::OrderedJson frequencies = net::OrderedJson::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t clock = assignments.clocks.size() == 1 ? 0 : i;
    frequencies.push_back({name(list[i].kind), assignments.clocks[clock].value});
  }
  return json_line({{"rank", rank}, {"frequencies", std::move(frequencies)}});
}

}  // namespace

/// One training of Zeus's clients.
struct ZeusRoutes::ZeusJob : JobListener {
  struct Rank {
    RankCoordinates coordinates;
    net::Reply asked;          ///< to its waiting schedule request; null if none waits
    std::uint64_t asking = 0;  ///< number of that request
  };

  ZeusJob(JobRegistry& given_registry, std::string given_id, JobShape given_shape)
      : registry(given_registry),
        id(std::move(given_id)),
        shape(given_shape),
        used(given_registry.clock().now()) {}

  void changed() override { respond(); }
  void ticked() override {}
  Interest interest() const override { return asking > 0 ? Interest::kTakesPart : Interest::kNone; }

  void respond_to_all(const net::HttpResponse& response) {
    for (auto& [number, rank] : ranks) {
      if (rank.asked) std::exchange(rank.asked, nullptr)(response);
    }
    asking = 0;
  }

  /// Handles a client that disconnected from its schedule request: the others wait until this rank
  /// requests again.
  void left(int number, std::uint64_t request) {
    const auto rank = ranks.find(number);
    if (rank == ranks.end() || !rank->second.asked || rank->second.asking != request) return;
    rank->second.asked = nullptr;
    --asking;
  }

  /// Answers all ranks at once if all have requested a schedule and the job has an assignment.
  void respond() {
    if (native != nullptr && native->moved) {
      return respond_to_all(zeus_error(421, "another server has job " + native->id + " now"));
    }
    if (asking < shape.ranks()) return;
    // Waits until the lease is renewed or the job has moved: only then is its owner known.
    if (native != nullptr && !native->deleted && !registry.commands(*native)) return;
    if (native == nullptr || native->is_over()) return respond_to_all(zeus_error(400, kWhatToGive));
    const Job& job = native->job;
    if (const JobShape& theirs = job.spec().shape; !(theirs == shape)) {
      return respond_to_all(zeus_error(
          400, "job " + native->id + " has " + std::to_string(theirs.data) + " pipelines of " +
                   std::to_string(theirs.stages) + " stages of " + std::to_string(theirs.tensor) +
                   " tensor shards, other degrees than this training"));
    }
    const auto assignments = job.assignments(0, 0);
    if (job.phase() == JobPhase::kCharacterizing || assignments.empty()) return;
    if (!takes_part && assignments.back().purpose != StageAssignment::Purpose::kPlan) return;
    version = assignments.back().version;
    // Continues after the rank that reported most. Skips iterations before the assignments take
    // effect, because their reports would count for less.
    if (!reported.empty()) next_iteration += *std::ranges::max_element(reported);
    next_iteration = std::clamp(assignments.back().from_iteration, next_iteration,
                                next_iteration + kMostLeftOut);
    reported.assign(ranks.size(), 0);
    for (auto& [number, rank] : ranks) {
      const StageAssignment newest =
          job.assignments(rank.coordinates.data, rank.coordinates.stage).back();
      std::exchange(rank.asked, nullptr)(
          {.content_type = "application/json",
           .body = schedule_text(job, number, rank.coordinates, newest),
           .before_sending = [&registry = registry, one = native](net::HttpResponse& response) {
             if (registry.commands(*one)) return;
             response = zeus_error(503, "another server has job " + one->id + " now; try again");
           }});
    }
    asking = 0;
  }

  /// Responds 503 to the waiting ranks after `patience`: a rank that has ended never sends its
  /// request, and the others would wait forever.
  void give_up(Seconds patience) {
    if (asking == 0 || asking == shape.ranks() || registry.clock().now() - asked_since < patience) {
      return;
    }
    std::string missing;
    int count = 0;
    for (int rank = 0; rank < shape.ranks() && count < 9; ++rank) {
      const auto found = ranks.find(rank);
      if (found != ranks.end() && found->second.asked) continue;
      missing += ++count == 9 ? ", ..." : (count > 1 ? ", " : "") + std::to_string(rank);
    }
    respond_to_all(zeus_error(503, "other ranks have not requested their schedule for " +
                                       shortest(patience.value) + " s: " + missing +
                                       ". They may have ended: start the training again"));
  }

  JobRegistry& registry;
  const std::string id;
  const JobShape shape;
  /// Only registered ranks, so that invented degrees use no memory.
  std::map<int, Rank> ranks;
  std::vector<std::int64_t> reported;  ///< iterations since the last schedule, by rank
  int asking = 0;
  Instant asked_since;  ///< time of the first waiting request
  JobRegistry::JobPtr native;
  bool takes_part = true;  ///< its ranks hold the places of the native job
  bool decided = false;    ///< `takes_part` is final
  std::uint64_t version = 0;
  std::int64_t next_iteration = 0;
  Instant used;
};

std::optional<std::string> job_of_zeus_request(const net::HttpRequest& request) {
  if (request.path == "/register_job") {
    const auto read = read_zeus_job(request.body);
    const auto* info = std::get_if<ZeusJobInfo>(&read);
    if (info == nullptr || brings_specification(*info)) return std::nullopt;
    return info->metadata;
  }
  for (const auto& [prefix, method] : kBelow) {
    if (!request.path.starts_with(prefix)) continue;
    return job_of_zeus_training(path_part(std::string_view(request.path).substr(prefix.size())));
  }
  return std::nullopt;
}

bool waits_for_other_ranks(const net::HttpRequest& request) {
  return request.method == "GET" && request.path.starts_with("/schedule/");
}

ZeusRoutes::ZeusRoutes(JobRegistry& registry, Seconds patience)
    : registry_(registry), patience_(patience) {}
ZeusRoutes::~ZeusRoutes() = default;

std::string ZeusRoutes::new_id(const ZeusJobInfo& info, const std::string& native) const {
  const std::string time = time_text();
  const std::string ending = zeus_training_ending(shape_of(info), native);
  const JobRegistry::JobPtr job = registry_.find(native);
  for (int number = 1;; ++number) {
    std::string id = time + (number > 1 ? "-" + std::to_string(number) : "") + ending;
    const bool was_before = job != nullptr && job->job.run() == id;
    if (!was_before && !jobs_.contains(id) && registry_.find(id) == nullptr) return id;
  }
}

/// Returns the training with this id, possibly created by an earlier server; null if there is none.
ZeusRoutes::ZeusJobPtr ZeusRoutes::find(const std::string& id) {
  const auto known = jobs_.find(id);
  const bool is_known = known != jobs_.end();
  // If the job was on another server in the meantime, the job has newer information.
  const bool is_old = is_known && known->second->native != nullptr && known->second->native->moved;
  if (is_known && !is_old) return known->second;
  if (ZeusJobPtr recovered = recover(id)) return jobs_[id] = std::move(recovered);
  return is_known ? known->second : nullptr;
}

/// Recreates a training from its job, so that the number of jobs limits the number of trainings.
/// Returns null if the job does not know the training.
ZeusRoutes::ZeusJobPtr ZeusRoutes::recover(const std::string& id) {
  const std::string native_id = job_of_zeus_training(id);
  const JobRegistry::JobPtr native = registry_.find(native_id);
  if (native == nullptr || !names_degrees(id, native->job.spec().shape)) return nullptr;
  const std::map<int, RankCoordinates> ranks = ranks_of_zeus_training(native->job, id);
  if (ranks.empty() && native_id != id) return nullptr;
  const JobShape shape = native->job.spec().shape;
  auto job = std::make_shared<ZeusJob>(registry_, id, shape);
  for (const auto& [rank, coordinates] : ranks) job->ranks[rank].coordinates = coordinates;
  if (!ranks.empty()) job->reported.assign(static_cast<std::size_t>(shape.ranks()), 0);
  job->decided = !ranks.empty();
  job->native = native;
  native->listeners.add(*job);
  return job;
}

void ZeusRoutes::register_job(const net::HttpRequest& request, const net::Reply& reply) {
  auto read = read_zeus_job(request.body);
  if (auto* refused = std::get_if<net::HttpResponse>(&read)) return reply(std::move(*refused));
  const ZeusJobInfo& info = std::get<ZeusJobInfo>(read);
  if (jobs_.size() >= kMostJobs) return reply(zeus_error(503, "too many jobs; try again later"));
  if (!brings_specification(info)) {
    const std::string id = new_id(info, info.metadata.value_or(""));
    jobs_[id] = std::make_shared<ZeusJob>(registry_, id, shape_of(info));
    return reply(net::json_response(200, id));
  }
  Result<std::string> spec = specification(info);
  if (!spec.ok()) return reply(zeus_error(400, spec.error().text()));
  const std::string id = new_id(info, {});
  const auto job = std::make_shared<ZeusJob>(registry_, id, shape_of(info));
  jobs_[id] = job;  // reserves the id
  registry_.put(id, *std::move(spec), request.client, [this, id, job, reply](auto registered) {
    if (!registered.ok()) {
      jobs_.erase(id);
      const int status = registered.error().code == ErrorCode::kUnavailable ? 503 : 400;
      return reply(zeus_error(status, "job_metadata: " + registered.error().text()));
    }
    if (registered->job == nullptr) {
      jobs_.erase(id);
      return reply(zeus_error(503, "another server has job " + id + " now; try again"));
    }
    job->native = registered->job;
    job->native->listeners.add(*job);
    registry_.when_stored(registered->job, [reply, id](const Status& stored) {
      reply(stored.ok() ? net::json_response(200, id) : zeus_error(503, stored.error().text()));
    });
  });
}

JobRegistry::JobPtr ZeusRoutes::native_of(const ZeusJobPtr& job) {
  if (job->native != nullptr && !job->native->is_over()) return job->native;
  job->native = registry_.find(job_of_zeus_training(job->id));
  job->decided = false;
  if (job->native != nullptr) job->native->listeners.add(*job);
  return job->native;
}

void ZeusRoutes::register_rank(const ZeusJobPtr& job, const net::HttpRequest& request,
                               const net::Reply& reply) {
  auto read = read_zeus_rank(request.body);
  if (auto* refused = std::get_if<net::HttpResponse>(&read)) return reply(std::move(*refused));
  const ZeusRankInfo& info = std::get<ZeusRankInfo>(read);
  const RankCoordinates coordinates{
      .data = info.dp_rank, .stage = info.pp_rank, .tensor = info.tp_rank};
  if (info.rank >= job->shape.ranks() || !job->shape.holds(coordinates)) {
    return reply(zeus_error(400, "the job has no such rank: its degrees are dp " +
                                     std::to_string(job->shape.data) + ", pp " +
                                     std::to_string(job->shape.stages) + ", tp " +
                                     std::to_string(job->shape.tensor)));
  }
  const JobRegistry::JobPtr native = native_of(job);
  if (native != nullptr && !std::exchange(job->decided, true)) {
    // A place that one of Harpe's own clients holds is not given to Zeus's ranks.
    const Job& known = native->job;
    const bool is_free =
        known.status().ranks_registered == 0 || !ranks_of_zeus_training(known, known.run()).empty();
    job->takes_part = known.spec().shape == job->shape && is_free;
  }
  if (native != nullptr && job->takes_part) {
    // The first rank has just begun this training, so no rank of it has lost count.
    const RankRegistration registration{.coordinates = coordinates,
                                        .session = zeus_session(job->id, info.rank),
                                        .run = job->id,
                                        .gpu = {},
                                        .clocks = info.frequencies,
                                        .take_over = true};
    const auto entered = registry_.register_rank(native, registration, request.client);
    if (!entered.ok()) {
      return reply(zeus_error(net::http_status(entered.error().code), entered.error().text()));
    }
  }
  job->ranks[info.rank].coordinates = coordinates;
  if (native == nullptr) return reply(net::json_response(200, nullptr));
  registry_.when_stored(native, [reply](const Status& stored) {
    reply(stored.ok() ? net::json_response(200, nullptr) : zeus_error(503, stored.error().text()));
  });
}

void ZeusRoutes::give_schedule(const ZeusJobPtr& job, const net::HttpRequest& request,
                               const net::Reply& reply) {
  auto read = read_zeus_rank_number(request.query);
  if (auto* refused = std::get_if<net::HttpResponse>(&read)) return reply(std::move(*refused));
  const int number = std::get<int>(read);
  if (number >= job->shape.ranks()) {
    return reply(zeus_error(400, "the job has no rank " + std::to_string(number)));
  }
  const auto found = job->ranks.find(number);
  if (found == job->ranks.end()) {
    return reply(not_registered(number));
  }
  ZeusJob::Rank& rank = found->second;
  if (rank.asked) {
    // The rank lost the connection of its earlier request.
    std::exchange(rank.asked, nullptr)(zeus_error(400, "the rank has sent a newer request"));
    --job->asking;
  }
  rank.asked = reply;
  const std::uint64_t asking = ++rank.asking;
  if (job->asking++ == 0) job->asked_since = registry_.clock().now();
  if (request.presence != nullptr) {
    request.presence->when_left([weak = std::weak_ptr(job), number, asking] {
      if (const ZeusJobPtr left = weak.lock()) left->left(number, asking);
    });
  }
  if (const JobRegistry::JobPtr native = native_of(job)) registry_.wake(native);
  job->respond();
}

void ZeusRoutes::take_result(const ZeusJobPtr& job, const net::HttpRequest& request,
                             const net::Reply& reply) {
  auto read = read_zeus_result(request.body);
  if (auto* refused = std::get_if<net::HttpResponse>(&read)) return reply(std::move(*refused));
  const ZeusResult& result = std::get<ZeusResult>(read);
  const auto rank = job->ranks.find(result.rank);
  if (rank == job->ranks.end()) return reply(not_registered(result.rank));
  const Status good = check_zeus_result(result);
  if (!good.ok()) return reply(zeus_error(400, good.error().text()));
  const JobRegistry::JobPtr native = native_of(job);
  if (native == nullptr || !job->takes_part || job->reported.empty()) {
    return reply(net::json_response(200, nullptr));
  }
  // The status stays 200: Zeus's client ends the training at any other status.
  nlohmann::json refused;
  for (std::size_t i = 0; i < result.iteration_time.size(); ++i) {
    IterationReport report = report_of_zeus_result(result, i);
    report.coordinates = rank->second.coordinates;
    report.session = zeus_session(job->id, result.rank);
    report.iteration = job->next_iteration + job->reported[result.rank];
    report.version = report.known = job->version;
    ++registry_.counts().reports;
    const Result<ReportTaken> taken =
        registry_.act(native, [&](Job& one, Seconds now) { return one.report(report, now); });
    if (!taken.ok()) {
      return reply(zeus_error(net::http_status(taken.error().code), taken.error().text()));
    }
    if (!taken->energy_refused.empty()) refused = {{"energy_refused", taken->energy_refused}};
    ++job->reported[result.rank];
  }
  reply(net::json_response(200, refused));
}

bool ZeusRoutes::handle(net::HttpRequest& request, const net::Reply& reply) {
  if (request.path == "/register_job") {
    if (request.method != "POST") return reply(wrong_zeus_method("POST")), true;
    return register_job(request, reply), true;
  }
  for (const auto& [prefix, method] : kBelow) {
    if (!request.path.starts_with(prefix)) continue;
    if (request.method != method) return reply(wrong_zeus_method(std::string(method))), true;
    const ZeusJobPtr job = find(path_part(std::string_view(request.path).substr(prefix.size())));
    if (job == nullptr) {
      return reply(zeus_error(404,
                              "there is no such job; register it with POST /register_job, or "
                              "start the training again")),
             true;
    }
    job->used = registry_.clock().now();
    if (prefix == "/register_rank/") return register_rank(job, request, reply), true;
    if (prefix == "/schedule/") return give_schedule(job, request, reply), true;
    return take_result(job, request, reply), true;
  }
  return false;
}

void ZeusRoutes::tick() {
  const Instant now = registry_.clock().now();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool is_over = job->second->asking == 0 && now - job->second->used > kLongestIdle;
    if (!is_over) {
      job->second->respond();
      job->second->give_up(patience_);
    }
    job = is_over ? jobs_.erase(job) : std::next(job);
  }
}

}  // namespace harpe::training
