// Users' requests in a simulated cluster.

#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/text.h"
#include "simulation/cluster.h"
#include "simulation/require.h"

namespace harpe::simulation {
void Cluster::ask(const std::string& method, const std::string& path, const std::string& body,
                  const Heard& heard, std::optional<std::size_t> server) {
  net::HttpRequest request;
  request.method = method;
  request.path = path;
  request.body = body;
  const std::size_t number = server.value_or(random_.below(servers_.size()));
  network_.ask(*people_, servers_[number]->url(), std::move(request), Seconds{30},
               {.answered = [this, method, path, heard](const Result<net::HttpResponse>& response) {
                 note("people: " + method + " " + path + ": " +
                      (response.ok() ? std::to_string(response->status) : response.error().text()));
                 heard(response.ok() ? response->status : 0, response.ok() ? response->body : "");
               }});
}

void Cluster::change_something() {
  if (!is_breaking_) return;
  Training& training = *random_.one_of(trainings_);
  switch (random_.below(12)) {
    case 0:
      remove_job(training);
      break;
    case 8:
    case 9:
      look(training);
      break;
    case 10:
    case 11:
      pause(training);
      break;
    case 1:
    case 2:
    case 3:
      change_objective(training);
      break;
    default: {
      const auto pipeline = random_.below(static_cast<std::size_t>(training.spec().shape.data));
      const std::string path =
          "/v1/jobs/" + training.id() + "/stragglers/" + std::to_string(pipeline);
      const auto answered = [this, id = training.id()](int, const std::string&) {
        history_.machines_changed(id);
      };
      if (random_.chance(0.5)) {
        ask("PUT", path, "{\"factor\": " + shortest(random_.between(1.05, 1.5)) + "}", answered);
      } else {
        ask("DELETE", path, {}, answered);
      }
    }
  }
  scheduler_.after(random_.around(Seconds{0.5}, Seconds{30}), [this] { change_something(); });
}

void Cluster::pause(Training& training) {
  const std::string& id = training.id();
  ask("PUT", "/v1/jobs/" + id + "/pace", R"({"pause": true, "why": "dirty"})",
      [](int, const std::string&) {});
  scheduler_.after(random_.around(Seconds{0.1}, Seconds{30}), [this, id] { go_on(id); });
}

void Cluster::go_on(const std::string& job) {
  ask("PUT", "/v1/jobs/" + job + "/pace", "{}", [this, job](int status, const std::string&) {
    if (status != 200 && status != 404) scheduler_.after(Seconds{5}, [this, job] { go_on(job); });
  });
}

void Cluster::change_objective(Training& training) {
  const std::string& id = training.id();
  // All objectives differ, so that the one in force is known.
  const double slowdown = random_.between(0, 0.1);
  const std::size_t number = objectives_.at(id).ask(slowdown, scheduler_.now());
  history_.set_objective(id, objectives_.at(id).most(scheduler_.now()));
  ask("PUT", "/v1/jobs/" + id + "/objective", "{\"slowdown\": " + shortest(slowdown) + "}",
      [this, id, number](int status, const std::string&) { answered(id, number, status == 200); });
}

void Cluster::answered(const std::string& job, std::size_t number, bool is_done) {
  AskedValue& objective = objectives_.at(job);
  objective.answered(number, is_done, scheduler_.now());
  history_.set_objective(job, objective.most(scheduler_.now()));
}

void Cluster::check_objective(const std::string& job, const std::string& status, Instant asked) {
  const double slowdown = nlohmann::json::parse(status)["objective"].value("slowdown", -1.0);
  if (!objectives_.at(job).may_be(slowdown, asked, scheduler_.now())) {
    broken("what was acknowledged is there: the objective of " + job + " is " + shortest(slowdown) +
           ", which another one had replaced");
  }
}

void Cluster::look(const Training& training) {
  ask("GET", "/v1/jobs/" + training.id(), {},
      [this, id = training.id(), asked = scheduler_.now()](int status, const std::string& body) {
        if (status == 200) check_objective(id, body, asked);
      });
}

void Cluster::remove_job(Training& training) {
  const std::string& id = training.id();
  // The lives known now. A life that begins in the meantime may stay, with the initial objective.
  const std::set<std::string> before = history_.incarnations(id);
  const std::size_t number = objectives_.at(id).ask(0, scheduler_.now());
  ask("DELETE", "/v1/jobs/" + id, {}, [this, id, before, number](int status, const std::string&) {
    const bool is_done = status == 200 || status == 204;
    answered(id, number, is_done);
    if (is_done) history_.deleted(id, before);
  });
}

}  // namespace harpe::simulation
