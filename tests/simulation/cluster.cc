#include "simulation/cluster.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/training/job/job_status_json.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr std::size_t kServers = 3;

/// Returns the specification of a job: small, so that a seed takes less than a second.
JobSpec specification(int data, int stages, int plans, bool is_profiled, std::uint64_t seed,
                      Profile& truth) {
  JobSpec spec;
  spec.name = "simulated";
  spec.shape = {.data = data, .stages = stages, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = stages, .micro_batches = 4});
  spec.plans = plans;
  spec.blocking_power = Watts{80};
  spec.profiling.most_clocks = 6;
  truth = *synthesize(
      {.stages = stages, .forward_seconds = 0.025, .imbalance = 1.3, .noise = 0, .seed = seed});
  if (is_profiled) spec.profile = truth;
  return spec;
}

std::string shown(Instant at) {
  std::string text = std::to_string((at - Instant{}).value);
  text.resize(text.find('.') + 4);
  return text;
}

}  // namespace

Cluster::Cluster(Options options)
    : options_(std::move(options)),
      random_(options_.seed, "nemesis"),
      noise_(options_.seed, "database"),
      energies_(options_.seed, "energies"),
      network_(scheduler_, options_.seed),
      history_(scheduler_, database_, {}) {
  on_broken([this](const std::string& what) {
    std::fprintf(stderr, "seed %llu, at %s s: %s\n", static_cast<unsigned long long>(options_.seed),
                 shown(scheduler_.now()).c_str(), what.c_str());
    note("BROKEN: " + what);
    note_jobs();
  });
  if (options_.trace) history_.trace = [this](const std::string& line) { note(line); };
  build();
}

Cluster::~Cluster() {
  on_broken({});
  for (const auto& server : servers_) server->kill();
  for (const auto& training : trainings_) training->kill_all();
  scheduler_.run_until(scheduler_.now() + Seconds{60});
}

void Cluster::note(const std::string& line) {
  if (options_.trace) options_.trace(shown(scheduler_.now()) + "  " + line);
}

/// Records the state that servers have of their jobs.
void Cluster::note_jobs() {
  if (!options_.trace) return;
  for (const auto& server : servers_) {
    if (server->registry() == nullptr) continue;
    for (const training::JobPtr& job : server->registry()->jobs()) {
      note(server->url() + " has " + job->id + ": " +
           json_line(training::job_status_json(job->job, [](Seconds at) { return at; })));
      for (const training::LoggedEvent& event : job->events) note(job->id + " told: " + event.text);
    }
  }
}

void Cluster::build() {
  Random random(options_.seed, "cluster");
  network_.quality = {.latest = random.around(Seconds{1e-3}, Seconds{0.05})};
  network_.watch = [this](const std::string& server, const net::HttpRequest& request, int status,
                          const std::string& bytes, bool handed_on) {
    if (options_.trace) {
      note(server + (handed_on ? " hands on to " : " to ") + request.client + ": " +
           request.method + " " + request.path + " " + std::to_string(status) + " " +
           bytes.substr(0, 400));
    }
    history_.sent(server, request, status, bytes, handed_on);
  };
  database_.on_call = [this](const training::StoreCall& call) { return fault_of(call); };
  database_.listener_pause = Seconds{0.1};
  machines_.resize(kServers);
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < kServers; ++i) {
    // Within the clock drift that leases allow: server_lease.h.
    machines_[i].rate = random.between(0.97, 1.03);
    machines_[i].since_boot = Seconds{random.between(100, 1e6)};
    servers_.push_back(
        std::make_unique<Server>(Server::World{scheduler_, network_, database_, options_.seed,
                                               [this](const std::string& line) { note(line); }},
                                 static_cast<int>(i), machines_[i]));
    addresses.push_back(servers_.back()->url());
    scheduler_.after(random.between(Seconds{0}, Seconds{2}), [this, i] { servers_[i]->start(); });
  }
  const int jobs = 1 + static_cast<int>(random.below(2));
  for (int i = 0; i < jobs; ++i) {
    const int data = 1 + static_cast<int>(random.below(3));
    const int stages = 2 + static_cast<int>(random.below(2));
    Profile truth;
    JobSpec spec =
        specification(data, stages, options_.plans, random.chance(0.7), options_.seed + i, truth);
    const std::string id = "job-" + std::to_string(i);
    objectives_.emplace(id, AskedValue(0));
    trainings_.push_back(std::make_unique<Training>(
        Training::World{scheduler_, network_, history_, addresses, options_.seed + i}, id,
        std::move(spec), truth));
    scheduler_.after(random.between(Seconds{2}, Seconds{10}), [this, i] {
      trainings_[static_cast<std::size_t>(i)]->start("run-" + std::to_string(++runs_));
    });
  }
  people_ = std::make_unique<Process>(scheduler_, "people", desk_, options_.seed);
}

Figures Cluster::run() {
  const Instant end = scheduler_.now() + options_.broken;
  scheduler_.after(Seconds{15}, [this] { break_something(); });
  scheduler_.after(Seconds{20}, [this] { change_something(); });
  disturb_energies();
  scheduler_.run_until(end);
  heal_all();
  scheduler_.run_until(end + options_.calm);
  check_end();
  return history_.figures();
}

// --- The end ------------------------------------------------------------------------------------

void Cluster::check_end() {
  for (const auto& server : servers_) {
    require(server->is_running(), "a server is there again after all is well");
    const training::JobRegistry& registry = *server->registry();
    require(registry.hosting().claims().is_lease_held(), "a server has its lease again");
    require(registry.hosting().table().count() <= trainings_.size(),
            "a server holds no more jobs than there are");
    require(registry.planner().waiting() <= trainings_.size(), "no more plans wait than jobs");
  }
  for (const auto& training : trainings_) {
    if (training->is_running()) check_job(*training);
  }
}

void Cluster::check_job(Training& training) {
  const std::string& id = training.id();
  for (std::size_t number = 0; number < servers_.size(); ++number) {
    const Instant asked = scheduler_.now();
    auto heard = std::make_shared<std::optional<std::pair<int, std::string>>>();
    ask(
        "GET", "/v1/jobs/" + id, {},
        [heard](int status, const std::string& body) { *heard = {status, body}; }, number);
    scheduler_.run_until(scheduler_.now() + Seconds{5});
    if (!*heard || (*heard)->first != 200) {
      broken("a job that trains is there: " + id + " at server " + std::to_string(number) + ": " +
             (*heard ? std::to_string((*heard)->first) + " " + (*heard)->second : "no answer"));
    }
    const auto status = nlohmann::json::parse((*heard)->second);
    check_objective(id, (*heard)->second, asked);
    if (status["phase"] == "registering") {
      broken("a job whose ranks are all there trains: " + id + " waits for " +
             status["ranks_missing"].dump());
    }
    history_.claimed(id, Joules{status["saved_j"].get<double>()},
                     Joules{status["saved_error_j"].get<double>()});
    const auto version = status["version"].get<std::uint64_t>();
    for (std::size_t i = 0; i < training.ranks(); ++i) {
      const Rank& rank = *training.rank(i);
      // Assignments may have changed since the request.
      if (!rank.governed() || rank.newest() + 1 < version) {
        broken("every change reaches every rank: " + training.rank_name(i) +
               (rank.governed() ? " is at version " + std::to_string(rank.newest()) + " of " +
                                      std::to_string(version)
                                : std::string(" is not governed")));
      }
    }
  }
}

}  // namespace harpe::simulation
