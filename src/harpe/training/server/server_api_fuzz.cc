// Requests to the routes of a server with a running job. Every request receives one response, as
// documented in docs/openapi.yaml. A refused request changes nothing. The job continues: its
// assignments hold clocks that its ranks named, and the reports of its ranks are accepted.
//
// The input: one character for the start (digits, see `Start`), a line end, then requests separated
// by empty lines. A request is a line "METHOD TARGET AUTHORIZATION" and lines of body. The words of
// `tokens` stand for signed tokens, and "{zeus}" for the last id from Zeus's route.

// Boost 1.74 needs <utility> before any of its network headers.
#include <utility>
// clang-format off
#include <boost/asio/io_context.hpp>
// clang-format on
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_server.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/contract_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {
namespace {

using nlohmann::json;

constexpr const char* kJob = "j";
constexpr const char* kKey = "0123456789abcdef0123456789abcdef";
constexpr int kStages = 2;
const std::vector<int> kClocks{1700, 1000};

/// The state of the server before the first request.
enum class Start : char {
  kNothing = '0',
  kRegistering = '1',  ///< one rank is missing
  kProfiling = '2',
  kRunning = '3',
};
/// Added to a start: the server requires tokens.
constexpr char kWithTokens = 4;

// --- The server ---------------------------------------------------------------------------------

std::string specification(bool with_profile) {
  json spec = {{"stages", kStages},
               {"schedule", "1f1b"},
               {"micro_batches", 2},
               {"blocking_power_w", 80},
               {"plans", 4}};
  if (with_profile) {
    spec["profile"] =
        "stage,instruction,frequency,time,energy\n"
        "0,forward,1700,0.010,3.0\n0,forward,1000,0.017,2.2\n"
        "0,backward,1700,0.020,6.0\n0,backward,1000,0.034,4.4\n"
        "1,forward,1700,0.014,4.2\n1,forward,1000,0.024,3.1\n"
        "1,backward,1700,0.028,8.4\n1,backward,1000,0.048,6.2\n";
  }
  return spec.dump();
}

std::string session_of(int stage) {
  return "s" + std::to_string(stage);
}

/// A store with one job or none. It accepts every write and stores nothing.
class FilledStore final : public Store {
 public:
  FilledStore() = default;
  FilledStore(JobTexts texts, std::string plans)
      : jobs_{{.id = kJob, .state = std::move(texts.state), .revision = 1, .updated = 0}},
        parts_(std::move(texts.parts)),
        plans_(std::move(plans)) {}

  Result<std::vector<std::string>> write(const StoreChanges& /*changes*/) override {
    return std::vector<std::string>();
  }
  Result<std::vector<StoredJob>> jobs() override { return jobs_; }
  Result<std::optional<StoredJob>> job(const std::string& id) override {
    const bool is_there = !jobs_.empty() && id == kJob;
    return is_there ? std::optional(jobs_.front()) : std::nullopt;
  }
  Result<std::map<std::string, std::string>> parts(const std::string& /*id*/) override {
    return parts_;
  }
  Result<std::vector<JobSummary>> summaries() override {
    if (jobs_.empty()) return std::vector<JobSummary>();
    return std::vector<JobSummary>{{.job = kJob, .text = {}, .heard = 1000, .ended = {}}};
  }
  Result<std::optional<JobSummary>> summary(const std::string& /*id*/) override {
    return std::optional<JobSummary>();
  }
  Result<std::optional<ClockMark>> clock() override { return std::optional<ClockMark>(); }
  Result<std::optional<std::string>> plans(const std::string& /*id*/) override {
    return std::optional(plans_);
  }
  Status remove(const std::string& /*id*/, std::optional<std::int64_t> /*epoch*/) override {
    return ok_status();
  }
  Result<std::vector<StoredEvent>> events(const std::string& /*job*/, std::int64_t /*after*/,
                                          int /*limit*/) override {
    return std::vector<StoredEvent>{
        {.sequence = 1, .at = 0, .job = kJob, .kind = "info", .text = ""}};
  }
  Result<std::int64_t> prune(const Retention& /*keep*/) override { return 0; }
  Result<std::optional<JobClaim>> claim(const std::string& /*job*/) override {
    return std::optional(JobClaim{.epoch = 1, .tenure = 1});
  }
  Status release(const std::string& /*job*/) override { return ok_status(); }
  LeaseState lease() const override { return {.held = true, .tenure = 1}; }
  Result<std::optional<JobOwner>> owner(const std::string& /*job*/) override {
    return std::optional<JobOwner>();
  }
  Result<std::map<std::string, std::string>> owners() override {
    return std::map<std::string, std::string>();
  }
  Result<std::vector<std::string>> ownerless() override { return std::vector<std::string>(); }
  Status notify(const std::string& /*text*/) override { return ok_status(); }
  Status listen(std::function<void(const StoreNotification&)> /*hear*/) override {
    return ok_status();
  }
  Status check() override { return ok_status(); }
  Status verify() override { return ok_status(); }
  std::string description() const override { return "memory"; }

 private:
  std::vector<StoredJob> jobs_;
  std::map<std::string, std::string> parts_;
  std::string plans_;
};

/// The result of one request.
struct Outcome {
  int responses = 0;
  net::HttpResponse response;  ///< the last one
};

class Server {
 public:
  /// \param store  contains the job if it exists from the beginning; must outlive this
  Server(bool needs_token, Store& store)
      : needs_token_(needs_token),
        hosting_(loop_, clock_, &store,
                 {.clocks = {.boot_time = [this] { return time_; },
                             .wall = [this] { return time_; },
                             .boot = "one"}},
                 [](const std::string&) {}) {
    require(hosting_.restore().ok(), "what is stored is taken up");
    if (!hosting_.table().holds(kJob)) return;
    bool is_there = false;
    registry_.load(kJob, [&](const Result<JobPtr>& job) {
      is_there = job.ok() && *job != nullptr;
      require(is_there, "a stored job is read", job.ok() ? "" : job.error().text());
      hosting_.jobs().wake(*job);
    });
    while (!is_there) loop_.context().run_one();
  }

  /// \param must_respond  false if the response may wait for other requests
  std::shared_ptr<Outcome> ask(const std::string& method, const std::string& target,
                               const std::string& body, std::string authorization,
                               bool must_respond = true) {
    const std::size_t question = target.find('?');
    const auto outcome = std::make_shared<Outcome>();
    net::HttpRequest request;
    request.method = method;
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    request.authorization = std::move(authorization);
    request.body = body;
    request.client = "a client";
    request.needs_token = needs_token_;
    api_.handle(std::move(request), [outcome](net::HttpResponse response) {
      ++outcome->responses;
      outcome->response = std::move(response);
    });
    while (must_respond && outcome->responses == 0) loop_.context().run_one();
    settle();
    return outcome;
  }

  void second_passes() {
    clock_.advance(1_s);
    time_ += 1;
    hosting_.tick();
    api_.tick();
    settle();
  }

  JobRegistry& registry() { return registry_; }

 private:
  /// Waits until no plans are being made.
  void settle() {
    loop_.context().poll();
    // Plans for an objective or a straggler count, too.
    const auto is_busy = [this] {
      const JobPlanner& planner = registry_.planner();
      return planner.waiting() + planner.running() > 0 ||
             std::ranges::any_of(registry_.jobs(),
                                 [](const JobPtr& job) { return job->work != nullptr; });
    };
    while (is_busy()) loop_.context().run_one();
    loop_.context().poll();
  }

  const bool needs_token_;
  ManualClock clock_;
  double time_ = 1000;
  net::ServerLoop loop_;
  Hosting hosting_;
  JobRegistry registry_{loop_, hosting_, {.workers = 1}};
  RecurringJobs recurring_jobs_{hosting_, [] { return 1; }};
  ServerApi api_{
      registry_, recurring_jobs_, {.token_keys = *net::TokenKeys::of(kKey), .version = "fuzz"}};
};

// --- Requests -----------------------------------------------------------------------------------

std::string bearer(const net::TokenClaims& claims) {
  return "Bearer " + net::SigningKey::of(kKey)->sign(claims);
}

const std::map<std::string, std::string, std::less<>>& tokens() {
  static const std::map<std::string, std::string, std::less<>> kSigned{
      {"all", bearer({.subject = "a", .scopes = {kJobRead, kJobWrite}})},
      {"read", bearer({.subject = "a", .scopes = {kJobRead}})},
      {"write", bearer({.subject = "a", .scopes = {kJobWrite}})},
      {"mine", bearer({.subject = "a", .scopes = {kJobRead, kJobWrite}, .job = kJob})},
      {"other", bearer({.subject = "a", .scopes = {kJobRead, kJobWrite}, .job = "other"})},
      {"old", bearer({.subject = "a", .scopes = {kJobRead, kJobWrite}, .expires = 1})}};
  return kSigned;
}

struct Request {
  std::string method, target, authorization, body;
};

std::vector<Request> requests_of(std::string_view text) {
  std::vector<Request> requests;
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    const std::size_t line_end = std::min(one.find('\n'), one.size());
    const std::vector<std::string_view> words = split(one.substr(0, line_end), ' ');
    if (words.size() < 2 || !words[1].starts_with('/')) continue;
    Request request{std::string(words[0]), std::string(words[1]), {}, {}};
    if (words.size() > 2) {
      const auto known = tokens().find(words[2]);
      request.authorization = known != tokens().end() ? known->second : std::string(words[2]);
    }
    if (line_end < one.size()) request.body = one.substr(line_end + 1);
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Returns false if the job would be planned, or would take seconds to plan: it finds no bugs.
bool is_small(const json& specification) {
  constexpr double kSmall = 6, kRefused = 1e6;
  if (!specification.is_object()) return true;
  const auto profile = specification.find("profile");
  if (profile != specification.end() && profile->is_string() &&
      parse_profile(profile->get<std::string>(), "profile").ok()) {
    return false;
  }
  for (const char* name : {"data", "stages", "tensor", "micro_batches", "chunks", "plans",
                           "pp_degree", "dp_degree", "tp_degree"}) {
    const auto found = specification.find(name);
    if (found == specification.end() || !found->is_number()) continue;
    if (found->get<double>() > kSmall && found->get<double>() <= kRefused) return false;
  }
  const auto metadata = specification.find("job_metadata");
  return metadata == specification.end() || !metadata->is_string() ||
         is_small(json::parse(metadata->get<std::string>(), nullptr, false));
}

bool is_small(const Request& request) {
  return request.body.find('{') == std::string::npos ||
         is_small(json::parse(request.body, nullptr, false));
}

// --- Checks -------------------------------------------------------------------------------------

/// Checks that a refused request did not change the job.
void check_unharmed(const std::string& before, const HostedJob& job, const Request& request) {
  json was = json::parse(before), is = json::parse(job.job.snapshot());
  for (json* state : {&was, &is}) {
    state->erase("reports_refused");  // counts refused requests
    // A rank that holds or waits for a place counts as heard, even if its request is refused.
    state->erase("heard");
  }
  require(was == is, "what is refused changes nothing",
          request.method + " " + request.target + "\n" + request.body + "\n" +
              json::diff(was, is).dump());
}

void check_response(const Request& request, const net::HttpResponse& response) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  const std::string asked = request.method + " " + request.target + "\n" + request.body + "\n" +
                            std::to_string(response.status) + " " + response.body;
  require(documented(request.method, path).contains(response.status),
          "it is answered as the contract says", asked);
  if (response.content_type == "application/json") {
    require(!json::parse(response.body, nullptr, false).is_discarded(), "JSON is JSON", asked);
  }
  if (response.status < 400) return;
  const json body = json::parse(response.body, nullptr, false);
  const bool says_why =
      body.contains("error") || body.contains("detail") || body.contains("message");
  require(says_why, "a refusal says why", asked);
}

void check_assignments(const HostedJob& hosted) {
  for (int stage = 0; stage < kStages; ++stage) {
    for (const StageAssignment& assignments : hosted.job.assignments(0, stage)) {
      require(assignments.version <= hosted.job.version(), "no assignments are newer than the job");
      for (const Megahertz clock : assignments.clocks) {
        require(clock.value == 0 || std::ranges::find(kClocks, clock.value) != kClocks.end(),
                "a rank is told clocks that it named");
      }
    }
  }
}

/// Checks that a server can continue from the stored job after a crash.
void check_snapshot(const HostedJob& hosted, Seconds now) {
  const JobTexts texts = hosted.job.texts();
  std::optional<plan::PlanTable> plans;
  if (hosted.job.plans() != nullptr) plans = *hosted.job.plans();
  Result<Job> restored = Job::read(texts, std::move(plans), now);
  require(restored.ok(), "a job can be restored",
          restored.ok() ? "" : restored.error().text() + "\n" + texts.state);
  restored->go_on(now);
}

void check_snapshot(const HostedRecurringJob& hosted) {
  const std::string text = zeus::batch_size_optimizer_json(hosted.optimizer());
  const Result<zeus::BatchSizeOptimizer> restored = zeus::parse_batch_size_optimizer(text);
  require(restored.ok() && zeus::batch_size_optimizer_json(*restored) == text,
          "a recurring job can be restored", text);
}

void begin(Server& server, Start start) {
  const std::string all = tokens().at("all");
  const std::string path = std::string("/v1/jobs/") + kJob;
  const bool with_profile = start != Start::kProfiling;
  require(server.ask("PUT", path, specification(with_profile), all)->response.status == 201,
          "the job begins");
  const int ranks = start == Start::kRegistering ? kStages - 1 : kStages;
  for (int stage = 0; stage < ranks; ++stage) {
    const json rank{{"stage", stage}, {"session", session_of(stage)}, {"clocks_mhz", kClocks}};
    require(server.ask("POST", path + "/ranks", rank.dump(), all)->response.status == 200,
            "its ranks register");
  }
  const char* phase = name_of(server.registry().find(kJob)->job.phase());
  require(start != Start::kRunning || std::string_view(phase) == "running", "it has a plan", phase);
}

/// Returns a store with a running job. Its plans are made only once, because that takes longer than
/// everything else.
FilledStore running_store() {
  static const auto kStored = [] {
    FilledStore empty;
    Server server(false, empty);
    begin(server, Start::kRunning);
    const Job& job = server.registry().find(kJob)->job;
    return std::pair(job.texts(), job.plans()->stored_text());
  }();
  return {kStored.first, kStored.second};
}

/// Returns true if an accepted request may have given the places of the job's ranks to others.
bool takes_places(const Request& request) {
  return request.method == "DELETE" || request.target.find("/ranks") != std::string::npos ||
         request.target.starts_with("/register_rank/");
}

void check_reports(Server& server, Start start) {
  const int ranks = start == Start::kRegistering ? kStages - 1 : kStages;
  for (int stage = 0; stage < ranks; ++stage) {
    const json report{
        {"stage", stage}, {"session", session_of(stage)}, {"iteration", 5}, {"time_s", 0.3}};
    const auto outcome = server.ask("POST", std::string("/v1/jobs/") + kJob + "/reports",
                                    report.dump(), tokens().at("all"));
    require(outcome->response.status == 200, "the job's ranks go on", outcome->response.body);
  }
}

void run(std::string_view input) {
  if (input.size() < 2 || input[0] < '0' || input[0] > '7') return;
  const bool needs_token = input[0] >= '0' + kWithTokens;
  const auto start = static_cast<Start>(needs_token ? input[0] - kWithTokens : input[0]);
  FilledStore store = start == Start::kRunning ? running_store() : FilledStore();
  Server server(needs_token, store);
  if (start == Start::kRegistering || start == Start::kProfiling) begin(server, start);
  const JobRegistry::JobPtr job = server.registry().find(kJob);

  std::vector<std::shared_ptr<Outcome>> outcomes;
  bool same_ranks = true;
  std::string zeus_id;
  for (Request& request : requests_of(input.substr(2))) {
    if (!is_small(request)) continue;
    if (const std::size_t at = request.target.find("{zeus}"); at != std::string::npos) {
      request.target.replace(at, std::string_view("{zeus}").size(), zeus_id);
    }
    const std::string before = job == nullptr ? "" : job->job.snapshot();
    const std::uint64_t version = job == nullptr ? 0 : job->job.version();
    const bool may_wait = request.method == "GET" && request.target.starts_with("/schedule/");
    outcomes.push_back(
        server.ask(request.method, request.target, request.body, request.authorization, !may_wait));
    const auto& [count, response] = *outcomes.back();
    if (count > 0) check_response(request, response);
    if (response.stream != nullptr) {
      response.stream->start([] {});
      require(!response.stream->take().empty(), "events begin with the present state");
    }
    if (request.target == "/register_job" && response.status == 200) {
      zeus_id = json::parse(response.body).get<std::string>();
    }
    if (job == nullptr) continue;
    const bool is_refused = count > 0 && response.status >= 400;
    if (is_refused) {
      check_unharmed(before, *job, request);
    } else {
      same_ranks = same_ranks && !takes_places(request);
    }
    if (same_ranks) check_assignments(*job);
    require(job->job.version() >= version, "versions rise");
    server.second_passes();
  }
  for (const JobPtr& hosted : server.registry().jobs()) {
    check_snapshot(*hosted, server.registry().now());
  }
  for (const auto& [id, hosted] : server.registry().hosting().table().loaded()) {
    const auto recurring = std::dynamic_pointer_cast<HostedRecurringJob>(hosted);
    if (recurring != nullptr) check_snapshot(*recurring);
  }
  for (const auto& outcome : outcomes) require(outcome->responses <= 1, "one response each");
  if (job != nullptr && same_ranks) check_reports(server, start);
}

}  // namespace
}  // namespace harpe::training

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  harpe::training::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
