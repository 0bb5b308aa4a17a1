#include "simulation/server.h"

#include <utility>

#include "harpe/training/server/zeus_routes.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

// The values of `harpe serve`.
constexpr Seconds kTick{1}, kLookAround{2}, kLookAtLease{0.1}, kPeerTimeout{5};
constexpr Seconds kWaitsForOthers{600};
constexpr Seconds kPrunePeriod{60}, kEventsKept{30.0 * 24 * 3600};
/// Delay after which a failed service is restarted.
constexpr Seconds kRestart{1};
constexpr Seconds kLook{0.01};

/// Events of another server, forwarded.
class HandedOnEvents final : public net::EventStream {
 public:
  void start(std::function<void()> wake) override {
    wake_ = std::move(wake);
    wake_();
  }
  std::string take() override { return std::exchange(unread_, {}); }
  bool ended() const override { return ended_ && unread_.empty(); }

  void add(const std::string& bytes) {
    unread_ += bytes;
    if (wake_) wake_();
  }
  void end() {
    ended_ = true;
    if (wake_) wake_();
  }

 private:
  std::string unread_;
  bool ended_ = false;
  std::function<void()> wake_;
};

}  // namespace

Server::Server(World world, int number, const MachineTime& machine)
    : world_(std::move(world)),
      name_("server-" + std::to_string(number)),
      url_("http://" + name_),
      machine_(machine) {}

void Server::start() {
  if (life_ != nullptr && !life_->process.dead()) return;
  const std::string name = name_;
  lives_.push_back(
      std::make_unique<Life>(world_.scheduler, name, machine_, world_.seed + lives_.size() * 1000));
  life_ = lives_.back().get();
  Life& life = *life_;
  // The previous life releases its files first.
  Life* const before = lives_.size() > 1 ? lives_[lives_.size() - 2].get() : nullptr;
  life.process.start_thread([this, &life, before] {
    while (before != nullptr && !before->gone) {
      world_.scheduler.sleep_until(world_.scheduler.now() + kLook);
    }
    open(life);
  });
}

void Server::open(Life& life) {
  while (!life.process.dead() && !try_open(life)) {
    life.process.clock().sleep_until(life.process.clock().now() + kRestart);
  }
  life.starting = false;
  if (life.process.dead()) return take_down(life);
  serve(life);
}

bool Server::try_open(Life& life) {
  Process& process = life.process;
  Result<std::unique_ptr<training::Store>> store = training::SimulatedStore::open(
      world_.database, {.name = name_, .url = url_, .clock = &process.clock()},
      {.start_thread =
           [&process](std::function<void()> body) { process.start_thread(std::move(body)); },
       .dead = [&process] { return process.dead(); }});
  if (!store.ok()) return false;
  life.store = *std::move(store);
  const auto log = [this](const std::string& line) { world_.log(name_ + ": " + line); };
  life.hosting = std::make_unique<training::Hosting>(
      process.loop(), process.clock(), life.store.get(),
      training::Hosting::Options{
          .clocks = {.boot_time = [&process] { return (process.clock().now() - Instant{}).value; },
                     .wall =
                         [this, &process] {
                           return machine_.wall.value + (process.clock().now() - Instant{}).value;
                         },
                     .boot = name_},
          .url = url_,
          .make_workers = process.make_workers()},
      log);
  life.registry = std::make_unique<training::JobRegistry>(
      process.loop(), *life.hosting,
      training::JobRegistry::Options{.workers = 1, .new_incarnation = [&process] {
                                       std::string text;
                                       while (text.size() < 16) {
                                         text +=
                                             static_cast<char>('a' + process.random().below(26));
                                       }
                                       return text;
                                     }});
  life.recurring_jobs = std::make_unique<training::RecurringJobs>(*life.hosting);
  life.owners = std::make_unique<training::JobOwners>(
      process.loop(), *life.hosting, *life.store,
      training::JobOwners::Options{
          .url = url_,
          .forward =
              [this, &life](const std::string& url, const net::HttpRequest& request,
                            const std::function<void(Result<net::HttpResponse>)>& answered) {
                forward(life, url, request, answered);
              },
          .make_workers = process.make_workers()},
      log);
  if (life.owners->start().ok()) return true;
  life.owners.reset();
  life.recurring_jobs.reset();
  life.registry.reset();
  life.hosting.reset();
  life.store.reset();
  return false;
}

void Server::every(Life& life, Seconds period, const std::function<void()>& work) {
  life.process.loop().after(period, [&life, period, work] {
    if (!life.up) return;
    work();
    every(life, period, work);
  });
}

void Server::serve(Life& life) {
  life.api = std::make_unique<training::ServerApi>(
      *life.registry, *life.recurring_jobs, training::ServerApiOptions{.version = "simulated"},
      life.owners.get());
  life.up = true;
  world_.network.serve(url_, &life.process, [&life](net::HttpRequest request, net::Reply reply) {
    if (life.up) life.api->handle(std::move(request), std::move(reply));
  });
  every(life, kTick, [&life] {
    life.hosting->tick();
    life.api->tick();
  });
  life.process.loop().post([&life] {
    if (life.up) life.owners->tick();
  });
  every(life, kLookAround, [&life] { life.owners->tick(); });
  every(life, kLookAtLease, [&life] { life.hosting->claims().watch_lease(); });
  every(life, kPrunePeriod, [&life] { life.hosting->prune(kEventsKept); });
  life.hosting->verifier().verify();
}

void Server::end(bool at_once) {
  if (life_ == nullptr || life_->process.dead()) return;
  Life& life = *life_;
  life_ = nullptr;
  world_.network.serve(url_, nullptr, {});
  life.up = false;
  life.process.end_loop();
  if (at_once || life.starting) life.process.kill();
  if (life.starting) return;  // the starting thread detects that
  life.process.start_thread([this, &life] { take_down(life); });
}

/// Runs on a thread, since writing and waiting for workers may take a while.
void Server::take_down(Life& life) {
  life.up = false;
  life.api.reset();
  life.owners.reset();
  life.recurring_jobs.reset();
  life.registry.reset();
  life.hosting.reset();
  life.store.reset();
  life.process.kill();
  life.gone = true;
}

void Server::stop() {
  if (life_ != nullptr) life_->process.stop();
}

void Server::go_on() {
  // A process that was asked to end while it was stopped ends now.
  for (const auto& life : lives_) {
    if (!life->gone) life->process.go_on();
  }
}

void Server::forward(Life& life, const std::string& url, const net::HttpRequest& request,
                     const std::function<void(Result<net::HttpResponse>)>& answered) {
  net::HttpRequest asked = request;
  asked.presence = nullptr;
  asked.forwarded = true;
  const Seconds timeout = training::waits_for_other_ranks(request) ? kWaitsForOthers : kPeerTimeout;
  const auto events = std::make_shared<HandedOnEvents>();
  const std::weak_ptr<HandedOnEvents> listening = events;
  const auto has_left = [presence = request.presence] {
    return presence != nullptr && presence->has_left();
  };
  const auto exchange = world_.network.ask(
      life.process, url, std::move(asked), timeout,
      {.answered =
           [answered, events = events, has_left](Result<net::HttpResponse> response) mutable {
             if (has_left()) return;
             if (response.ok()) {
               response->headers.emplace_back(kHandedOn, "1");
               if (response->content_type == "text/event-stream") response->stream = events;
             }
             events.reset();
             answered(std::move(response));
           },
       .bytes =
           [listening](const std::string& bytes) {
             if (const auto one = listening.lock()) one->add(bytes);
           },
       .ended =
           [listening](const std::string&) {
             if (const auto one = listening.lock()) one->end();
           }});
  if (request.presence != nullptr) {
    request.presence->when_left([weak = std::weak_ptr(exchange)] {
      if (const auto one = weak.lock()) one->leave();
    });
  }
}

}  // namespace harpe::simulation
