// What people ask of a simulated cluster.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/text.h"
#include "simulation/cluster.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

/// What is on its way when something breaks may arrive as late as this.
constexpr Seconds kLongestTrouble{100};

}  // namespace

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
  switch (random_.below(10)) {
    case 0:
      remove_job(training);
      break;
    case 8:
    case 9:
      look(training);
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

void Cluster::change_objective(Training& training, double slowdown) {
  Wanted& wanted = wanted_[training.id()];
  // Nothing that was asked for before can still be done after this.
  const bool is_clear = wanted.asked == 0 && scheduler_.now() >= wanted.doubt_until;
  wanted.slowdown.reset();
  wanted.most = std::max(wanted.most, slowdown);
  ++wanted.asked;
  const int number = ++wanted.number;
  history_.set_objective(training.id(), wanted.most);
  ask("PUT", "/v1/jobs/" + training.id() + "/wish", "{\"slowdown\": " + shortest(slowdown) + "}",
      [this, &wanted, &training, slowdown, is_clear, number](int status, const std::string&) {
        --wanted.asked;
        if (status != 200) wanted.doubt_until = scheduler_.now() + kLongestTrouble;
        if (status != 200 || !is_clear || number != wanted.number) return;
        if (scheduler_.now() < wanted.doubt_until) return;  // the job was deleted meanwhile
        wanted.slowdown = wanted.most = slowdown;
        history_.set_objective(training.id(), slowdown);
      });
}

void Cluster::check_objective(const std::string& job, const std::string& status) {
  const std::optional<double> wanted = wanted_[job].slowdown;
  const double slowdown = nlohmann::json::parse(status)["wish"].value("slowdown", -1.0);
  if (wanted && slowdown != *wanted) {
    broken("what was acknowledged is there: the objective of " + job + " is " + shortest(slowdown) +
           ", not " + shortest(*wanted));
  }
}

void Cluster::look(Training& training) {
  const std::string& id = training.id();
  const Wanted& wanted = wanted_[id];
  // Nothing else may be under way, from the question to the answer.
  ask("GET", "/v1/jobs/" + id, {},
      [this, &wanted, id, before = wanted.slowdown](int status, const std::string& body) {
        if (status == 200 && before && wanted.slowdown == before) check_objective(id, body);
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

}  // namespace harpe::simulation
