#include "load_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

/// Number of concurrent requests while ranks register and subscribe.
constexpr int kWave = 400;
constexpr double kPatience = 150;       // s for all ranks to register, and for the first plan
constexpr double kChangePatience = 10;  // s for a change to reach all ranks
constexpr int kRanksANode = 8;

std::chrono::nanoseconds nanoseconds(Seconds time) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(time.value * 1e9));
}

}  // namespace

LoadRun::LoadRun(const LoadOptions& options, LoadJob& job, std::string address, int port)
    : options_(options),
      job_(job),
      address_(std::move(address)),
      port_(port),
      connections_(address_, port,
                   {.answered = [this](int id, int status,
                                       std::string_view body) { answered(id, status, body); },
                    .happened =
                        [this](int id, std::string_view event, std::string_view data) {
                          if (event == "assignments")
                            got_assignments(listener_of_[static_cast<std::size_t>(id)], data);
                        },
                    .lost =
                        [this](int id, const std::string& why) {
                          ++result_.connections_lost;
                          error("connection " + std::to_string(id) + " was lost: " + why);
                        }}),
      ranks_(static_cast<std::size_t>(ranks())),
      factor_(static_cast<std::size_t>(options.shape.data), 1.0),
      to_report_(ranks_.size()),
      random_(options.seed) {
  std::iota(to_report_.begin(), to_report_.end(), 0);
  std::ranges::shuffle(to_report_, random_);
}

double LoadRun::since(Time begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void LoadRun::error(const std::string& why) {
  if (result_.first_fault.empty()) result_.first_fault = why;
}

Result<LoadResult> LoadRun::run() {
  HARPE_TRY(register_all());
  HARPE_TRY(subscribe_all());
  HARPE_TRY(wait_for_plans());
  train();
  HARPE_TRY(compare_with_server());
  return std::move(result_);
}

// --- Setup --------------------------------------------------------------------------------------

Result<int> LoadRun::open(int rank, bool listens) {
  const Result<int> id = connections_.open(rank / kRanksANode);
  if (!id.ok()) return id;
  listener_of_.push_back(listens ? rank : -1);
  asked_by_.emplace_back();
  return id;
}

void LoadRun::ask(int rank, const std::string& rest, const std::string& body) {
  const int id = ranks_[static_cast<std::size_t>(rank)].reports;
  asked_by_[static_cast<std::size_t>(id)].push_back(rank);
  ++outstanding_;
  connections_.ask(id, "POST", path(rest), body);
}

Status LoadRun::register_all() {
  const Time begin = Clock::now();
  const auto created = HARPE_TRY(ask_once(address_, port_, "PUT", path(""), job_.spec_json()));
  if (created.status != 201) {
    return Error::of(ErrorCode::kUnavailable, "the job is not registered: " + created.body);
  }
  people_ = HARPE_TRY(open(0, false));
  std::string clocks;
  for (const Megahertz clock : job_.clocks()) {
    clocks += (clocks.empty() ? "" : ",") + std::to_string(clock.value);
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    if (rank % options_.ranks_a_connection == 0) {
      one.reports = HARPE_TRY(open(rank, false));
    } else {
      one.reports = ranks_[static_cast<std::size_t>(rank - 1)].reports;
    }
    ask(rank, "/ranks",
        "{\"data\":" + std::to_string(pipeline_of(rank)) +
            ",\"stage\":" + std::to_string(stage_of(rank)) + ",\"tensor\":0,\"session\":\"s" +
            std::to_string(rank) + "\",\"run\":\"\",\"gpu\":\"simulated\",\"clocks_mhz\":[" +
            clocks + "]}");
    while (outstanding_ >= kWave && since(begin) < kPatience) connections_.poll(10);
  }
  while (outstanding_ > 0 && since(begin) < kPatience) connections_.poll(10);
  result_.register_s = since(begin);
  const auto missing = std::ranges::count(ranks_, false, &Rank::registered);
  if (missing == 0) return ok_status();
  return Error::of(ErrorCode::kUnavailable,
                   std::to_string(missing) + " ranks could not register: " + result_.first_fault);
}

Status LoadRun::subscribe_all() {
  const Time begin = Clock::now();
  for (int rank = 0; rank < ranks() && listens(rank); ++rank) {
    const int id = HARPE_TRY(open(rank, true));
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    one.events = id;
    one.assignments = nullptr;  // the stream sends the assignments of the registration again
    connections_.subscribe(id, path("/events?data=" + std::to_string(pipeline_of(rank)) +
                                    "&stage=" + std::to_string(stage_of(rank))));
    if (rank % kWave == kWave - 1) connections_.poll(1);
  }
  const auto waiting = [this] { return std::ranges::count(ranks_, nullptr, &Rank::assignments); };
  while (waiting() > 0 && since(begin) < kPatience) connections_.poll(10);
  result_.subscribe_s = since(begin);
  if (waiting() == 0) return ok_status();
  return Error::of(
      ErrorCode::kUnavailable,
      std::to_string(waiting()) + " ranks hear no assignments: " + result_.first_fault);
}

Status LoadRun::wait_for_plans() {
  const Time begin = Clock::now();
  const auto planned = [](const Rank& rank) {
    return rank.events < 0 || (!rank.assignments->assignments.empty() &&
                               rank.assignments->assignments.back().purpose ==
                                   training::StageAssignment::Purpose::kPlan);
  };
  while (!std::ranges::all_of(ranks_, planned) && since(begin) < kPatience) connections_.poll(10);
  result_.plan_s = since(begin);
  if (std::ranges::all_of(ranks_, planned)) return ok_status();
  return Error::of(ErrorCode::kUnavailable, "there is no plan after 60 s");
}

// --- Training -----------------------------------------------------------------------------------

void LoadRun::begin_iteration() {
  ended_ = std::exchange(under_way_, {});
  under_way_.number = ended_.number + 1;
  under_way_.factor = factor_;
  for (const Rank& rank : ranks_) {
    under_way_.by.push_back(rank.assignments);
    under_way_.in_force.push_back(rank.assignments->in_force(under_way_.number));
  }
  std::vector<const StageWork*> stages(static_cast<std::size_t>(options_.shape.stages));
  for (int pipeline = 0; pipeline < options_.shape.data; ++pipeline) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const std::size_t rank = static_cast<std::size_t>(pipeline) * stages.size() + stage;
      const int which = under_way_.in_force[rank];
      stages[stage] = which < 0 ? job_.all_max(static_cast<int>(stage))
                                : under_way_.by[rank]->work[static_cast<std::size_t>(which)];
    }
    under_way_.length = std::max(
        under_way_.length, job_.makespan(stages) * factor_[static_cast<std::size_t>(pipeline)]);
  }
  reported_ = 0;
  ++result_.iterations;
}

void LoadRun::send_report(int number) {
  const auto at = static_cast<std::size_t>(number);
  Rank& rank = ranks_[at];
  const int which = ended_.in_force[at];
  const StageWork* work = which < 0 ? job_.all_max(stage_of(number))
                                    : ended_.by[at]->work[static_cast<std::size_t>(which)];
  const std::uint64_t version =
      which < 0 ? 0 : ended_.by[at]->assignments[static_cast<std::size_t>(which)].version;
  const double factor = ended_.factor[static_cast<std::size_t>(pipeline_of(number))];
  const Seconds busy = work->time * factor;
  const Joules energy = work->energy + job_.blocking_power() * (ended_.length - busy);
  // All instructions of a straggler take longer.
  std::string totals = work->totals;
  if (factor != 1) {
    Json changed = Json::parse(totals);
    for (Json& one : changed) one["time_s"] = one["time_s"].get<double>() * factor;
    totals = changed.dump();
  }
  rank.sent = Clock::now();
  ++result_.sent;
  ask(number, "/reports",
      "{\"data\":" + std::to_string(pipeline_of(number)) +
          ",\"stage\":" + std::to_string(stage_of(number)) + ",\"tensor\":0,\"session\":\"s" +
          std::to_string(number) + "\",\"iteration\":" + std::to_string(ended_.number) +
          ",\"version\":" + std::to_string(version) +
          ",\"known\":" + std::to_string(rank.assignments->newest()) + ",\"time_s\":" +
          shortest(ended_.length.value) + ",\"energy_j\":" + shortest(energy.value) +
          ",\"energy_error_j\":" + shortest(energy.value * 0.005) +
          ",\"throttled\":false,\"instructions\":" + totals + "}");
}

/// Sends the reports that are due: ranks end the iteration one after the other within `spread`.
void LoadRun::send_reports_due(Time begun, Time now) {
  if (ended_.number < 0) return;
  const double share =
      options_.spread.value <= 0
          ? 1
          : std::chrono::duration<double>(now - begun).count() / options_.spread.value;
  const auto due =
      static_cast<std::size_t>(std::min(1.0, share) * static_cast<double>(to_report_.size()));
  // A few at a time, so that responses and events are handled in between.
  for (int sent = 0; reported_ < due && sent < 100; ++sent) send_report(to_report_[reported_++]);
}

void LoadRun::train() {
  const Time start = Clock::now();
  Time begun = start, last_change = start;
  under_way_ = ended_ = {};
  begin_iteration();
  while (true) {
    const Time now = Clock::now();
    const bool all_sent = ended_.number < 0 || reported_ == to_report_.size();
    if (since(start) >= options_.train.value && all_sent && !change_.open) break;
    if (all_sent && now >= begun + nanoseconds(under_way_.length)) {
      begun += nanoseconds(under_way_.length);
      begin_iteration();
    }
    send_reports_due(begun, Clock::now());
    if (change_.open && since(change_.asked) > kChangePatience) {
      error("a change did not reach all ranks within 10 s");
      finish_change();
    }
    if (!change_.open &&
        std::chrono::duration<double>(now - last_change).count() >= options_.change_every.value &&
        since(start) < options_.train.value) {
      change_something();
      last_change = now;
    }
    connections_.poll(ended_.number >= 0 && reported_ < to_report_.size() ? 0 : 1);
  }
  const Time end = Clock::now();
  while (outstanding_ > 0 && since(end) < kPatience) connections_.poll(10);
}

// --- Changes ------------------------------------------------------------------------------------

void LoadRun::change_something() {
  change_.open = true;
  change_.before = newest_;
  change_.version = 0;
  change_.delay.assign(ranks_.size(), -1);
  change_.had.assign(ranks_.size(), 0);
  change_.missing = ranks();
  change_.asked = Clock::now();
  ++outstanding_;
  if (straggler_ >= 0) {
    factor_[static_cast<std::size_t>(straggler_)] = 1;
    connections_.ask(people_, "DELETE", path("/stragglers/" + std::to_string(straggler_)), "");
    straggler_ = -1;
    return;
  }
  straggler_ = std::uniform_int_distribution<int>(0, options_.shape.data - 1)(random_);
  factor_[static_cast<std::size_t>(straggler_)] = 1.2;
  connections_.ask(people_, "PUT", path("/stragglers/" + std::to_string(straggler_)),
                   R"({"factor":1.2,"for_s":3600})");
}

void LoadRun::note_arrival(int rank, std::uint64_t version) {
  newest_ = std::max(newest_, version);
  if (!change_.open || version <= change_.before) return;
  const auto at = static_cast<std::size_t>(rank);
  if (change_.version != 0 && (version < change_.version || change_.delay[at] >= 0)) return;
  change_.delay[at] = since(change_.asked);
  change_.had[at] = version;
  if (change_.version != 0 && --change_.missing == 0) finish_change();
}

void LoadRun::finish_change() {
  change_.open = false;
  ++result_.changes;
  result_.ranks_missed += change_.missing;
  for (std::size_t rank = 0; rank < change_.delay.size(); ++rank) {
    const bool listening = listens(static_cast<int>(rank));
    if (change_.delay[rank] < 0) continue;
    (listening ? result_.delays : result_.delays_of_others).push_back(change_.delay[rank]);
  }
  if (change_.missing == 0) result_.whole.push_back(std::ranges::max(change_.delay));
}

// --- Incoming messages --------------------------------------------------------------------------

void LoadRun::answered(int id, int status, std::string_view body) {
  --outstanding_;
  if (status != 200) error(std::to_string(status) + " " + std::string(body.substr(0, 300)));
  if (id == people_) {
    const Json response = Json::parse(body, nullptr, false);
    if (status != 200 || !response.is_object()) return finish_change();
    change_.version = response.value("version", std::uint64_t{0});
    change_.missing = 0;
    for (std::size_t i = 0; i < change_.delay.size(); ++i) {
      if (change_.had[i] < change_.version) change_.delay[i] = -1;
      if (change_.delay[i] < 0) ++change_.missing;
    }
    if (change_.version <= change_.before) {
      error("a change of a straggler changed no assignments");
      change_.open = false;
    } else if (change_.missing == 0) {
      finish_change();
    }
    return;
  }
  std::deque<int>& asked_by = asked_by_[static_cast<std::size_t>(id)];
  if (asked_by.empty()) return error("a response that no request asked for: " + std::string(body));
  const int number = asked_by.front();
  asked_by.pop_front();
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (!rank.registered) {
    rank.registered = status == 200;
    if (rank.registered) got_assignments(number, body);
    return;
  }
  ++(status == 200 ? result_.accepted : result_.refused);
  result_.responses.push_back(since(rank.sent));
  if (body.find("\"assignments\"") != std::string_view::npos) got_assignments(number, body);
}

void LoadRun::got_assignments(int number, std::string_view text) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  const auto assignments = job_.assignments(text, stage_of(number));
  if (!assignments.ok()) return error(assignments.error().text());
  const std::uint64_t before = rank.assignments == nullptr ? 0 : rank.assignments->newest();
  if ((*assignments)->newest() < before) return;  // a newer event arrived before this response
  rank.assignments = *assignments;
  for (const training::StageAssignment& one : rank.assignments->assignments) {
    if (one.version > before && one.from_iteration <= under_way_.number) ++result_.assignments_late;
  }
  if (rank.assignments->newest() > before) note_arrival(number, rank.assignments->newest());
}

Status LoadRun::compare_with_server() {
  const auto response = HARPE_TRY(ask_once(address_, port_, "GET", path(""), ""));
  const Json status = Json::parse(response.body, nullptr, false);
  if (response.status != 200 || !status.is_object()) {
    return Error::of(ErrorCode::kUnavailable, "the job's status: " + response.body);
  }
  result_.counted_by_server = status.value("reports", std::int64_t{0});
  const auto version = status.value("version", std::uint64_t{0});
  const Time begin = Clock::now();
  const auto behind = [&](const Rank& rank) { return rank.assignments->newest() < version; };
  while (std::ranges::any_of(ranks_, behind) && since(begin) < kChangePatience)
    connections_.poll(10);
  result_.ranks_behind = static_cast<int>(std::ranges::count_if(ranks_, behind));
  return ok_status();
}

}  // namespace harpe::bench
