#include "simulation/history.h"

#include <algorithm>
#include <string_view>

#include "harpe/base/text.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr std::size_t kWindow = 100;

/// Returns the last member of that name before the end of a JSON object, as text; empty if there is
/// none.
std::string_view member(std::string_view json, std::string_view name) {
  const std::string key = "\"" + std::string(name) + "\":";
  const std::size_t at = json.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = json.substr(at + key.size());
  if (rest.starts_with('"')) {
    rest.remove_prefix(1);
    return rest.substr(0, rest.find('"'));
  }
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

std::string text_of(const PlayedIteration& iteration) {
  std::string text = iteration.job + " ran iteration " + std::to_string(iteration.number) + " in " +
                     shortest(iteration.time.value) + " s, at all-max " +
                     shortest(iteration.all_max_time.value) + " s, by";
  for (const auto& by : iteration.by) {
    text += by ? " " + std::to_string(by->epoch) + "/" + std::to_string(by->version) : " none";
  }
  return text + (iteration.is_planned ? " (plans)" : iteration.is_profiled ? " (measures)" : "");
}

std::string job_in(std::string_view path) {
  constexpr std::string_view kJobs = "/v1/jobs/";
  if (!path.starts_with(kJobs)) return {};
  path.remove_prefix(kJobs.size());
  return std::string(path.substr(0, path.find('/')));
}

}  // namespace

void Figures::add(const Figures& other) {
  iterations += other.iterations;
  mixed += other.mixed;
  free += other.free;
  pauses += other.pauses;
  split += other.split;
  planned += other.planned;
  windows += other.windows;
  requests += other.requests;
  diagnostics += other.diagnostics;
  moves += other.moves;
  deletions += other.deletions;
  starts += other.starts;
  claims += other.claims;
  claims_within += other.claims_within;
  slowest_window = std::max(slowest_window, other.slowest_window);
  longest_mixed = std::max(longest_mixed, other.longest_mixed);
}

void History::sent(const std::string& server, const net::HttpRequest& request, int status,
                   const std::string& bytes, bool handed_on) {
  if (!handed_on) ++figures_.requests;
  const std::string id = job_in(request.path);
  if (id.empty() || status != 200 || handed_on) return;
  const std::string_view epoch = member(bytes, "epoch");
  const std::string incarnation(member(bytes, "incarnation"));
  if (epoch.empty() || incarnation.empty()) return;
  JobHistory& job = jobs_[id];
  if (job.deleted.contains(incarnation)) {
    broken("deleted stays deleted: " + server + " tells of " + id + ", life " + incarnation +
           ", which was deleted");
  }
  job.incarnations.insert(incarnation);
  check_commander(server, id, parse_integer(epoch).value_or(0));
}

/// Checks that at most one server commands a job: none may use a claim that was replaced.
void History::check_commander(const std::string& server, const std::string& job,
                              std::int64_t epoch) {
  struct Claim {
    std::string url;
    std::int64_t epoch = 0;
  };
  const auto claim = database_.step([&](training::SimulatedTables& tables) -> std::optional<Claim> {
    const auto owner = tables.owner(job);
    if (!owner) return std::nullopt;
    const auto row = tables.server(owner->server);
    return Claim{row ? row->url : std::string(), owner->epoch};
  });
  if (!claim) return;  // it is being deleted
  if (claim->epoch > epoch) {
    broken("one server commands a job: " + server + " commands " + job + " by epoch " +
           std::to_string(epoch) + " while " + claim->url + " has it by " +
           std::to_string(claim->epoch));
  }
  if (!claim->url.empty() && claim->url != server) {
    broken("one server commands a job: " + server + " commands " + job + ", which " + claim->url +
           " has");
  }
  JobHistory& one = jobs_[job];
  if (epoch > one.newest_epoch) ++figures_.moves;
  one.newest_epoch = epoch;
}

void History::paused(const std::string& job, bool all) {
  ++figures_.pauses;
  if (trace) trace(job + " pauses" + (all ? "" : ", but not all ranks do"));
  if (all) return;
  ++figures_.split;
  if (calm_since_ && scheduler_.now() - *calm_since_ > options_.delivery)
    broken("all ranks pause before the same iteration: of " + job + " some do not");
}

void History::iteration(PlayedIteration iteration) {
  JobHistory& job = jobs_[iteration.job];
  ++figures_.iterations;
  figures_.planned += iteration.is_planned ? 1 : 0;
  figures_.free += static_cast<std::uint64_t>(
      std::ranges::count_if(iteration.by, [](const auto& by) { return !by; }));
  job.saved += std::max(Joules{}, iteration.all_max_energy - iteration.energy);
  if (trace) trace(text_of(iteration));
  check_mixed(job, iteration);
  check_promise(job, iteration);
}

/// Checks that all ranks with a server follow the same assignments, except while a change is being
/// delivered.
void History::check_mixed(JobHistory& job, const PlayedIteration& iteration) {
  std::set<RanBy> different;
  for (const auto& by : iteration.by) {
    if (by) different.insert(*by);
  }
  if (different.size() <= 1) {
    job.mixed_since.reset();
    return;
  }
  ++figures_.mixed;
  if (!job.mixed_since) job.mixed_since = iteration.began;
  const Instant now = scheduler_.now();
  figures_.longest_mixed = std::max(figures_.longest_mixed, (now - *job.mixed_since).value);
  if (!calm_since_) return;
  const Seconds mixed = now - std::max(*calm_since_, *job.mixed_since);
  if (mixed > options_.delivery) {
    std::string text;
    for (const auto& by : iteration.by) {
      text += by ? " " + by->incarnation + "/" + std::to_string(by->epoch) + "/" +
                       std::to_string(by->version)
                 : " free";
    }
    broken("all ranks run by the same assignments: " + iteration.job + ", iteration " +
           std::to_string(iteration.number) + ", for " + shortest(mixed.value) + " s:" + text);
  }
}

/// Checks that over 100 iterations no job is slower than its objective. Excluded are iterations
/// that measure (which have their own limit), iterations during a fault, or after it until all
/// ranks have heard from their server and have the newest assignments, iterations with ranks
/// without a server or with several servers, and the first ones after these and after a change of
/// machines.
void History::check_promise(JobHistory& job, const PlayedIteration& iteration) {
  ++job.settled;
  const auto& first = iteration.by.front();
  const bool by_one_server = std::ranges::all_of(
      iteration.by, [&](const auto& by) { return by && by->epoch == first->epoch; });
  const bool is_calm = calm_since_ && iteration.confirmed_since >= *calm_since_ &&
                       !(job.mixed_since && *job.mixed_since < *calm_since_);
  if (!is_calm || iteration.is_profiled || !by_one_server) job.settled = 0;
  if (job.settled < options_.settling) return job.window.clear();
  job.window.push_back(iteration);
  if (job.window.size() > kWindow) job.window.pop_front();
  if (job.window.size() < kWindow) return;
  double time = 0, allowed = 0;
  for (const PlayedIteration& one : job.window) {
    time += one.time.value;
    allowed += one.all_max_time.value;
  }
  allowed *= 1 + job.objective;
  const double over = time / allowed - 1;
  ++figures_.windows;
  figures_.slowest_window = std::max(figures_.slowest_window, over);
  if (over > options_.tolerance) {
    broken("no job is slower than its objective: " + iteration.job + " by " + shortest(over * 100) +
           " % over 100 iterations up to " + std::to_string(iteration.number));
  }
}

/// Reports may be lost, so a claim may be below the true saving, but not above. Bars are 95 %
/// intervals: most claims are within one, all within three.
void History::claimed(const std::string& job, Joules saved, Joules error) {
  constexpr double kNoise = 0.01;
  const Joules true_savings = jobs_[job].saved;
  const Joules over = saved - true_savings * (1 + kNoise) - Joules{1};
  ++figures_.claims;
  figures_.claims_within += over <= error ? 1 : 0;
  if (over > 3 * error) {
    broken("no joule is claimed outside its bar: " + job + " says " + shortest(saved.value) +
           " +- " + shortest(error.value) + " J, of " + shortest(true_savings.value) + " J");
  }
}

void History::deleted(const std::string& job, const std::set<std::string>& incarnations) {
  ++figures_.deletions;
  jobs_[job].deleted.insert(incarnations.begin(), incarnations.end());
}

std::set<std::string> History::incarnations(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::set<std::string>() : found->second.incarnations;
}

void History::troubled(bool is_troubled) {
  if (is_troubled) {
    calm_since_.reset();
  } else if (!calm_since_) {
    calm_since_ = scheduler_.now();
  }
}

}  // namespace harpe::simulation
