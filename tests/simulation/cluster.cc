#include "simulation/cluster.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/job/job_json.h"
#include "harpe/profile/synth.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr std::size_t kServers = 3;
/// What is on its way when something breaks may arrive as late as this.
constexpr Seconds kLongestTrouble{100};
constexpr const char* kDatabase = "database";

/// What a job is: small, so that a seed takes less than a second.
JobSpec specification(int data, int stages, bool is_profiled, std::uint64_t seed, Profile& truth) {
  JobSpec spec;
  spec.name = "simulated";
  spec.shape = {.data = data, .stages = stages, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = stages, .micro_batches = 4});
  spec.plans = 12;
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

/// What servers know of their jobs.
void Cluster::note_jobs() {
  if (!options_.trace) return;
  for (const auto& server : servers_) {
    if (server->registry() == nullptr) continue;
    for (const auto& [id, job] : server->registry()->jobs()) {
      note(server->url() + " has " + id + ": " +
           job_status_json(job->job, [](Seconds at) { return at; }));
      for (const LoggedNotice& notice : job->notices) note(id + " told: " + notice.text);
    }
  }
}

void Cluster::build() {
  Random random(options_.seed, "cluster");
  network_.quality = {.latest = random.around(Seconds{1e-3}, Seconds{0.05})};
  network_.watch = [this](const std::string& server, const HttpRequest& request, int status,
                          const std::string& bytes, bool handed_on) {
    if (options_.trace) {
      note(server + (handed_on ? " hands on to " : " to ") + request.client + ": " +
           request.method + " " + request.path + " " + std::to_string(status) + " " +
           bytes.substr(0, 400));
    }
    history_.sent(server, request, status, bytes, handed_on);
  };
  database_.on_call = [this](const StoreCall& call) { return fault_of(call); };
  database_.listener_pause = Seconds{0.1};
  machines_.resize(kServers);
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < kServers; ++i) {
    // Within what leases allow for: server_lease.h.
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
    JobSpec spec = specification(data, stages, random.chance(0.7), options_.seed + i, truth);
    const std::string id = "job-" + std::to_string(i);
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
  scheduler_.run_until(end);
  heal_all();
  scheduler_.run_until(end + options_.calm);
  check_end();
  return history_.figures();
}

// --- The database -------------------------------------------------------------------------------

StoreFault Cluster::fault_of(const StoreCall& call) {
  using Outcome = StoreFault::Outcome;
  const Seconds before = noise_.around(Seconds{2e-4}, Seconds{0.01});
  const Seconds after = noise_.around(Seconds{1e-4}, Seconds{0.01});
  if (database_state_ == Database::kRefuses) return {Outcome::kRefused, before, after};
  if (database_state_ == Database::kHangs || network_.is_cut(call.url, kDatabase)) {
    return {Outcome::kLostBefore, before, after};
  }
  if (database_state_ == Database::kFull && call.writes()) return {Outcome::kFull, before, after};
  if (database_state_ != Database::kShaky || !noise_.chance(0.1)) {
    return {Outcome::kDone, before, after};
  }
  const std::vector<Outcome> outcomes{Outcome::kDone, Outcome::kLostBefore, Outcome::kLostAfter,
                                      Outcome::kResetBefore, Outcome::kResetAfter};
  return {noise_.one_of(outcomes), noise_.around(before, Seconds{15}),
          noise_.around(after, Seconds{15})};
}

// --- The nemesis --------------------------------------------------------------------------------

void Cluster::trouble(const std::string& what, Seconds time, const std::function<void()>& breaks,
                      std::function<void()> mends) {
  note("nemesis: " + what + " for " + shortest(time.value) + " s");
  history_.count_fault();
  ++troubles_;
  history_.troubled(true);
  breaks();
  scheduler_.after(time, [this, what, mends = std::move(mends)] {
    note("nemesis: no more " + what);
    mends();
    if (--troubles_ == 0) history_.troubled(false);
  });
}

void Cluster::break_something() {
  if (!is_breaking_) return;
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      trouble_server(random_);
      break;
    case 3:
      trouble_database(random_);
      break;
    case 4:
    case 5:
      trouble_network(random_);
      break;
    case 6:
      trouble_training(random_);
      break;
    default:
      trouble_machines(random_);
  }
  scheduler_.after(random_.around(Seconds{0.2}, Seconds{25}), [this] { break_something(); });
}

void Cluster::trouble_server(Random& random) {
  const std::size_t number = random.below(servers_.size());
  Server& server = *servers_[number];
  const std::string name = "server " + std::to_string(number);
  const Seconds time = random.around(Seconds{0.05}, Seconds{40});
  switch (random.below(4)) {
    case 0:
      return trouble(name + " killed", time, [&] { server.kill(); }, [&] { server.start(); });
    case 1:
      return trouble(
          name + " ended", time, [&] { server.end_in_order(); }, [&] { server.start(); });
    case 2: {
      const double jump = random.between(-3e5, 3e5);
      note("nemesis: the wall clock of " + name + " jumps by " + shortest(jump) + " s");
      history_.count_fault();
      machines_[number].wall += Seconds{jump};
      return;
    }
    default:
      return trouble(name + " stopped", time, [&] { server.stop(); }, [&] { server.go_on(); });
  }
}

void Cluster::trouble_database(Random& random) {
  if (database_state_ != Database::kWell) return;
  const Seconds time = random.around(Seconds{0.5}, Seconds{60});
  const auto becomes = [&](const std::string& what, Database state) {
    trouble(
        "database " + what, time, [&] { database_state_ = state; },
        [this] { database_state_ = Database::kWell; });
  };
  switch (random.below(5)) {
    case 0:
      note("nemesis: the database starts again");
      history_.count_fault();
      return database_.restart();
    case 1:
      return becomes("refuses", Database::kRefuses);
    case 2:
      return becomes("hangs", Database::kHangs);
    case 3:
      return becomes("is full", Database::kFull);
    default:
      return becomes("is shaky", Database::kShaky);
  }
}

void Cluster::trouble_network(Random& random) {
  const std::string server = random.one_of(servers_)->url();
  const Seconds time = random.around(Seconds{0.5}, Seconds{60});
  std::string other = kDatabase;
  switch (random.below(4)) {
    case 0:
      other = random.one_of(servers_)->url();
      if (other == server) return;
      break;
    case 1: {
      const Training& training = *random.one_of(trainings_);
      other = training.rank_name(random.below(training.ranks()));
      break;
    }
    case 2:
      return trouble(
          "connections that break", time,
          [&] { network_.quality.breaks = random.between(0.01, 0.3); },
          [this] { network_.quality.breaks = 0; });
    default:
      break;
  }
  trouble(
      server + " cut off from " + other, time, [&] { network_.cut(server, other); },
      [this, server, other] { network_.heal(server, other); });
}

void Cluster::restart(Training& training, Seconds after, const std::string& run) {
  scheduler_.after(after, [this, &training, run] {
    if (!training.is_running()) return;
    training.kill_all();
    scheduler_.after(Seconds{1}, [this, &training, run] {
      if (!training.is_running()) training.start(run);
      // A new start may take a while until more than half of its ranks are there.
      if (--troubles_ == 0) history_.troubled(false);
    });
  });
}

void Cluster::trouble_training(Random& random) {
  Training& training = *random.one_of(trainings_);
  if (!training.is_running()) return;
  const std::size_t rank = random.below(training.ranks());
  if (random.chance(0.5)) {
    return trouble(
        training.rank_name(rank) + " stopped", random.around(Seconds{0.5}, Seconds{80}),
        [&] { training.stop_rank(rank); }, [&training, rank] { training.go_on_rank(rank); });
  }
  note("nemesis: " + training.rank_name(rank) + " killed, and training starts again");
  history_.count_fault();
  ++troubles_;
  history_.troubled(true);
  training.kill_rank(rank);
  // torchrun gives its restarts the same name, others a new one.
  const std::string run = random.chance(0.5) ? "elastic" : "run-" + std::to_string(++runs_);
  restart(training, random.around(Seconds{1}, Seconds{30}), run);
}

void Cluster::trouble_machines(Random& random) {
  Training& training = *random.one_of(trainings_);
  if (random.chance(0.5)) {
    const std::size_t number = random.below(training.ranks());
    Node& node = training.node(number);
    return trouble(
        "agent of " + training.rank_name(number) + " killed",
        random.around(Seconds{0.5}, Seconds{60}),
        [&] { node.kill_agent(static_cast<int>(random.below(20))); },
        [&node] { node.start_agent(); });
  }
  const JobShape& shape = training.spec().shape;
  const std::pair place{static_cast<int>(random.below(static_cast<std::size_t>(shape.data))),
                        static_cast<int>(random.below(static_cast<std::size_t>(shape.stages)))};
  auto& slow = training.machines().slow;
  history_.count_fault();
  if (slow.contains(place)) {
    slow.erase(place);
    note("nemesis: GPU of " + training.id() + " well again");
  } else {
    slow[place] = random.between(1.05, 1.5);
    note("nemesis: GPU " + std::to_string(place.first) + "." + std::to_string(place.second) +
         " of " + training.id() + " slower by " + shortest(slow[place]));
  }
  history_.machines_changed(training.id());
}

void Cluster::heal_all() {
  is_breaking_ = false;
  // What is being mended mends itself; nothing lasts longer than this.
  database_state_ = Database::kWell;
  network_.quality.breaks = 0;
  network_.heal_all();
  for (const auto& server : servers_) {
    server->go_on();
    server->start();
  }
  for (const auto& training : trainings_) {
    for (std::size_t i = 0; i < training->ranks(); ++i) {
      training->go_on_rank(i);
      training->node(i).start_agent();
    }
  }
  // What people declared was chance: it is no objective of the job.
  for (const auto& training : trainings_) {
    for (int pipeline = 0; pipeline < training->spec().shape.data; ++pipeline) {
      withdraw("/v1/jobs/" + training->id() + "/stragglers/" + std::to_string(pipeline));
    }
  }
  note("all is healed");
}

void Cluster::withdraw(const std::string& path) {
  ask("DELETE", path, {}, [this, path](int status, const std::string&) {
    if (status == 200 || status == 404) return;
    scheduler_.after(Seconds{2}, [this, path] { withdraw(path); });
  });
}

// --- People -------------------------------------------------------------------------------------

void Cluster::ask(const std::string& method, const std::string& path, const std::string& body,
                  const Heard& heard, std::optional<std::size_t> server) {
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.body = body;
  const std::size_t number = server.value_or(random_.below(servers_.size()));
  network_.ask(*people_, servers_[number]->url(), std::move(request), Seconds{30},
               {.answered = [this, method, path, heard](const Result<HttpResponse>& answer) {
                 note("people: " + method + " " + path + ": " +
                      (answer.ok() ? std::to_string(answer->status) : answer.error().text()));
                 heard(answer.ok() ? answer->status : 0, answer.ok() ? answer->body : "");
               }});
}

void Cluster::change_something() {
  if (!is_breaking_) return;
  Training& training = *random_.one_of(trainings_);
  switch (random_.below(8)) {
    case 0:
      remove_job(training);
      break;
    case 1:
    case 2:
    case 3:
      change_objective(training, random_.one_of(std::vector<double>{0, 0.05, 0.1}));
      break;
    default: {
      const auto pipeline = random_.below(static_cast<std::size_t>(training.spec().shape.data));
      const std::string path =
          "/v1/jobs/" + training.id() + "/stragglers/" + std::to_string(pipeline);
      const auto nothing = [](int, const std::string&) {};
      if (random_.chance(0.5)) {
        ask("PUT", path, "{\"factor\": " + shortest(random_.between(1.05, 1.5)) + "}", nothing);
      } else {
        ask("DELETE", path, {}, nothing);
      }
    }
  }
  scheduler_.after(random_.around(Seconds{0.5}, Seconds{30}), [this] { change_something(); });
}

void Cluster::change_objective(Training& training, double slowdown) {
  Wanted& wanted = wanted_[training.id()];
  // Nothing that was asked for before can still be done after this.
  const bool is_clear = wanted.asked == 0 && scheduler_.now() >= wanted.doubt_until;
  wanted.slowdown.reset();
  wanted.most = std::max(wanted.most, slowdown);
  ++wanted.asked;
  history_.set_objective(training.id(), wanted.most);
  ask("PUT", "/v1/jobs/" + training.id() + "/wish", "{\"slowdown\": " + shortest(slowdown) + "}",
      [this, &wanted, &training, slowdown, is_clear](int status, const std::string&) {
        --wanted.asked;
        if (status != 200) wanted.doubt_until = scheduler_.now() + kLongestTrouble;
        if (status != 200 || !is_clear || wanted.asked > 0) return;
        if (scheduler_.now() < wanted.doubt_until) return;  // the job was deleted meanwhile
        wanted.slowdown = wanted.most = slowdown;
        history_.set_objective(training.id(), slowdown);
      });
}

void Cluster::remove_job(Training& training) {
  // What is known of it now; a life that begins meanwhile may stay.
  Wanted& wanted = wanted_[training.id()];
  wanted.slowdown.reset();
  wanted.doubt_until = scheduler_.now() + kLongestTrouble;
  const std::set<std::string> before = history_.incarnations(training.id());
  ask("DELETE", "/v1/jobs/" + training.id(), {},
      [this, &training, before](int status, const std::string&) {
        if (status == 200 || status == 204) history_.deleted(training.id(), before);
      });
}

// --- The end ------------------------------------------------------------------------------------

void Cluster::check_end() {
  for (const auto& server : servers_) {
    require(server->is_running(), "a server is there again after all is well");
    const JobRegistry& registry = *server->registry();
    require(registry.holds_lease(), "a server has its lease again");
    require(registry.job_count() <= trainings_.size(),
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
    const Wanted& wanted = wanted_[id];
    const double slowdown = status["wish"].value("slowdown", -1.0);
    if (wanted.slowdown && slowdown != *wanted.slowdown) {
      broken("what was acknowledged is there: the objective of " + id + " is " +
             shortest(slowdown) + ", not " + shortest(*wanted.slowdown));
    }
    if (status["phase"] == "registering") {
      broken("a job whose ranks are all there trains: " + id + " waits for " +
             status["ranks_missing"].dump());
    }
    history_.claimed(id, Joules{status["saved_j"].get<double>()},
                     Joules{status["saved_error_j"].get<double>()});
    const auto version = status["version"].get<std::uint64_t>();
    for (std::size_t i = 0; i < training.ranks(); ++i) {
      const Rank& rank = *training.rank(i);
      // Orders may have changed since it was asked.
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
