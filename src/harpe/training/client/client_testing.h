#pragma once
/// \file
/// A server for tests of the client: one job, led by the real state machine, over real HTTP. The
/// server can stop and start again, and a test can replace its responses.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/mutex.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/job.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {

class TestServer {
 public:
  /// Returns a response to send in place of the job's response, or nullopt.
  using Override = std::function<std::optional<net::HttpResponse>(const net::HttpRequest&)>;

  TestServer() { up(); }
  ~TestServer() { down(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url() const { return "http://" + address_; }

  /// Stops the server like a kill -9: the port and all connections are closed. The job is kept.
  void down() {
    if (!loop_) return;
    loop_->post([this] {
      server_->close();
      loop_->stop();
    });
    thread_.join();
    server_.reset();
    loop_.reset();
  }
  void up() {
    auto listening = net::listen_tcp(*net::parse_tcp_address(address_));
    if (!listening.ok()) std::abort();
    address_ = net::listening_address(listening->get());
    loop_ = std::make_unique<net::ServerLoop>();
    server_ = std::make_unique<net::HttpServer>(
        *loop_,
        [this](const net::HttpRequest& request, const net::Reply& reply) {
          reply(respond(request));
        },
        limits_, [](const std::string&) {});
    if (!server_->serve(*std::move(listening), false).ok()) std::abort();
    loop_->every(Seconds{0.2}, [this] {
      const MutexLock lock(mutex_);
      if (job_) job_->tick(now());
      settle();
    });
    thread_ = std::thread([this] { loop_->run(); });
  }

  void respond_by(Override override_response) {
    const MutexLock lock(mutex_);
    override_ = std::move(override_response);
  }
  /// Reads or changes the job.
  template <class T>
  T with_job(const std::function<T(std::optional<Job>&)>& use) {
    const MutexLock lock(mutex_);
    T result = use(job_);
    settle();
    return result;
  }
  JobPhase phase() {
    return with_job<JobPhase>(
        [](std::optional<Job>& job) { return job ? job->phase() : JobPhase::kRegistering; });
  }
  std::vector<IterationReport> reports() {
    const MutexLock lock(mutex_);
    return reports_;
  }
  std::vector<std::string> requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }
  std::vector<std::string> events() {
    const MutexLock lock(mutex_);
    return events_;
  }

 private:
  class Stream final : public net::EventStream {
   public:
    Stream(int of_pipeline, int of_stage) : pipeline(of_pipeline), stage(of_stage) {}
    void start(std::function<void()> wake) override {
      {
        const MutexLock lock(mutex_);
        wake_ = wake;
      }
      wake();
    }
    std::string take() override {
      const MutexLock lock(mutex_);
      return std::exchange(waiting_, {});
    }
    void put(const std::string& text) {
      std::function<void()> wake;
      {
        const MutexLock lock(mutex_);
        waiting_ += text;
        wake = wake_;
      }
      if (wake) wake();
    }
    const int pipeline, stage;

   private:
    Mutex mutex_;
    std::string waiting_ HARPE_GUARDED_BY(mutex_) = ": hello\n\n";
    std::function<void()> wake_ HARPE_GUARDED_BY(mutex_);
  };

  static Seconds now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return Seconds{std::chrono::duration<double>(since).count()};
  }
  static net::HttpResponse json(int status, std::string body) {
    return {.status = status, .content_type = "application/json", .body = std::move(body)};
  }
  static net::HttpResponse refused(const Error& error) {
    const int status = error.code == ErrorCode::kConflict   ? 409
                       : error.code == ErrorCode::kNotFound ? 404
                                                            : 400;
    return json(status, R"({"error": {"code": "x", "message": "refused"}})");
  }
  std::string assignments(int pipeline, int stage, std::uint64_t start = 0) const
      HARPE_REQUIRES(mutex_) {
    const RankResponse response{
        .version = job_->version(), .incarnation = job_->incarnation(), .epoch = 1, .start = start};
    return rank_response_json(response, assignments_json(job_->assignments(pipeline, stage)));
  }

  net::HttpResponse respond(const net::HttpRequest& request) {
    const MutexLock lock(mutex_);
    requests_.push_back(request.method + " " + request.path);
    if (override_) {
      if (auto instead = override_(request)) return *std::move(instead);
    }
    net::HttpResponse response = response_of_job(request);
    settle();
    return response;
  }

  net::HttpResponse response_of_job(const net::HttpRequest& request) HARPE_REQUIRES(mutex_) {
    if (request.method == "PUT") {
      auto spec = parse_job_spec(request.body);
      if (!spec.ok()) return refused(spec.error());
      if (job_) return json(200, "{}");
      auto job = Job::create(*std::move(spec), now(), "life" + std::to_string(++lives_));
      if (!job.ok()) return refused(job.error());
      job_.emplace(*std::move(job));
      return json(201, "{}");
    }
    if (!job_) return json(404, "{}");
    if (request.path.ends_with("/events")) {
      int data = 0, stage = 0;
      std::sscanf(request.query.c_str(), "data=%d&stage=%d", &data, &stage);
      auto stream = std::make_shared<Stream>(data, stage);
      streams_.push_back(stream);
      return {.status = 200, .content_type = "text/event-stream", .stream = stream};
    }
    if (request.path.ends_with("/ranks")) {
      auto registration = parse_rank_registration(request.body);
      if (!registration.ok()) return refused(registration.error());
      auto rank = job_->register_rank(*registration, now());
      if (!rank.ok()) return refused(rank.error());
      if (rank->gathers) return json(409, R"({"error": {"code": "gathering", "message": "w"}})");
      return json(200, assignments(registration->coordinates.data, registration->coordinates.stage,
                                   rank->start));
    }
    if (request.path.ends_with("/end")) {
      auto end = parse_rank_end(request.body);
      if (!end.ok()) return refused(end.error());
      if (Status ended = job_->end_rank(*end, now()); !ended.ok()) return refused(ended.error());
      return json(200, "{}");
    }
    auto report = parse_iteration_report(request.body);
    if (!report.ok()) return refused(report.error());
    reports_.push_back(*report);
    if (auto taken = job_->report(*report, now()); !taken.ok()) return refused(taken.error());
    settle();
    return json(200, assignments(report->coordinates.data, report->coordinates.stage));
  }

  /// Carries out the effects that the job requests.
  void settle() HARPE_REQUIRES(mutex_) {
    while (job_) {
      JobEffects effects = job_->take_effects();
      for (const JobEvent& event : effects.events) events_.push_back(event.text);
      if (effects.assignments) {
        for (const auto& weak : streams_) {
          const auto stream = weak.lock();
          if (!stream) continue;
          stream->put("event: assignments\ndata: " + assignments(stream->pipeline, stream->stage) +
                      "\n\n");
        }
      }
      if (!effects.characterize) return;
      const std::uint64_t ticket = effects.characterize->ticket;
      job_->characterized(ticket, plans(*effects.characterize), now());
    }
  }
  Result<plan::PlanTable> plans(const CharacterizeRequest& request) const HARPE_REQUIRES(mutex_) {
    const JobSpec& spec = job_->spec();
    auto frontier = HARPE_TRY(characterize(spec.schedule, request.profile,
                                           {.blocking_power = request.blocking_power.front()}));
    return plan::PlanTable::build(frontier, {.plans = spec.plans, .plan = {}});
  }

  std::string address_ = "127.0.0.1:0";
  net::HttpLimits limits_;
  std::unique_ptr<net::ServerLoop> loop_;
  std::unique_ptr<net::HttpServer> server_;
  std::thread thread_;

  Mutex mutex_;
  std::optional<Job> job_ HARPE_GUARDED_BY(mutex_);
  int lives_ HARPE_GUARDED_BY(mutex_) = 0;
  Override override_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Stream>> streams_ HARPE_GUARDED_BY(mutex_);
  std::vector<IterationReport> reports_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ HARPE_GUARDED_BY(mutex_), events_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::training
