#include "harpe/training/server/job_owners.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/hosted_request.h"
#include "harpe/training/server/zeus_routes.h"

namespace harpe::training {
namespace {

constexpr std::string_view kMoved = "moved ";
/// Maximum number of ownerless jobs taken over at a time, so that several servers share them.
constexpr std::size_t kMostAtOnce = 256;
constexpr Seconds kFirstPause{0.05}, kLongestPause{0.5};
/// Maximum time that reports of ranks wait for a server to renew its lease.
constexpr Seconds kLapse{1.5};
/// The owner, on the worker, of work that no client requested.
const std::string kOwnWork;
/// Maximum number of a client's requests that wait for the store; clients take turns.
constexpr std::size_t kMostLookUps = 256;

/// Returns an error in the format of the path's protocol.
net::HttpResponse error_of(const std::string& path, int status, const std::string& why) {
  return net::is_native_path(path) ? net::native_error(status, "unavailable", why)
                                   : zeus_error(status, why);
}

net::HttpResponse unavailable(const std::string& path, const std::string& why) {
  net::HttpResponse response = error_of(path, 503, why);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

/// Lists of several servers, merged when all have arrived.
struct Lists {
  net::Reply reply;
  std::size_t limit = 0;
  std::map<std::string, net::OrderedJson> jobs = {};  ///< by id
  std::optional<std::string> next = {};  ///< jobs after this id may be missing; nullopt if none are
  std::vector<std::string> unreachable = {};
  std::size_t missing = 0;

  void take(const std::string& url, const net::HttpResponse* response) {
    const net::OrderedJson document = response != nullptr && response->status == 200
                                          ? json_or_discarded(response->body)
                                          : net::OrderedJson();
    const auto list = document.find("jobs");
    if (list == document.end() || !list->is_array()) {
      unreachable.push_back(url);
    } else {
      for (const net::OrderedJson& job : *list) jobs.insert_or_assign(job.value("id", ""), job);
      const std::string more = document.value("next", std::string());
      if (!more.empty()) next = std::min(next.value_or(more), more);
    }
    if (--missing > 0) return;
    if (next) jobs.erase(jobs.upper_bound(*next), jobs.end());
    if (jobs.size() > limit) {
      jobs.erase(std::next(jobs.begin(), static_cast<std::ptrdiff_t>(limit)), jobs.end());
      next = jobs.rbegin()->first;
    }
    net::OrderedJson all = net::OrderedJson::array();
    for (auto& [id, job] : jobs) all.push_back(std::move(job));
    net::OrderedJson together{{"jobs", std::move(all)}};
    if (next) together["next"] = *next;
    if (!unreachable.empty()) together["unreachable"] = unreachable;
    reply(net::json_response(200, together));
  }
};

}  // namespace

/// A request that is being routed to the owner of its job.
struct JobOwners::Asked {
  const std::string id;
  const net::HttpRequest request;
  const net::Reply reply;
  const Handler here;
  const Instant at;
  std::optional<Instant> deadline = {};  ///< end of the retries; set at the first failure
  Seconds pause = kFirstPause;
};

/// Events of a job that its owner sends, ended when the owner changes: a server that is suspended
/// does not end its own streams.
class JobOwners::RelayedEvents final : public net::EventStream {
 public:
  RelayedEvents(std::shared_ptr<net::EventStream> events, std::string url)
      : events_(std::move(events)), url_(std::move(url)) {}

  void start(std::function<void()> wake) override {
    wake_ = wake;
    events_->start(std::move(wake));
  }
  std::string take() override { return is_over_ ? std::string() : events_->take(); }
  bool ended() const override { return is_over_ || events_->ended(); }

  const std::string& url() const { return url_; }
  void end() {
    is_over_ = true;
    if (wake_) wake_();
  }

 private:
  const std::shared_ptr<net::EventStream> events_;
  const std::string url_;
  std::function<void()> wake_;
  bool is_over_ = false;
};

JobOwners::JobOwners(Loop& loop, Hosting& hosting, Store& store, Options options,
                     std::function<void(const std::string&)> log)
    : loop_(loop),
      hosting_(hosting),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      worker_(options_.make_workers({.threads = 1})) {}

JobOwners::~JobOwners() {
  *alive_ = false;
  static_cast<void>(store_.listen({}));
}

void JobOwners::on_loop(std::function<void()> work) {
  loop_.post([alive = alive_, work = std::move(work)] {
    if (*alive) work();
  });
}

Status JobOwners::start() {
  return store_.listen([this](const StoreNotification& notification) {
    on_loop([this, notification] {
      if (notification.kind == StoreNotification::Kind::kLookAgain) return forget_all();
      if (notification.own || !notification.text.starts_with(kMoved)) return;
      forget(notification.text.substr(kMoved.size()));
    });
  });
}

void JobOwners::forget(const std::string& id, const std::string& url) {
  const auto known = elsewhere_.find(id);
  if (known != elsewhere_.end() && known->second != url) elsewhere_.erase(known);
  const auto relayed = relayed_.find(id);
  if (relayed == relayed_.end()) return;
  std::erase_if(relayed->second, [&](const auto& weak) {
    const auto events = weak.lock();
    if (events != nullptr && events->url() == url) return false;
    if (events != nullptr) events->end();
    return true;
  });
  if (relayed->second.empty()) relayed_.erase(relayed);
}

/// Forgets all owners, because notifications of moves may have been lost.
void JobOwners::forget_all() {
  elsewhere_.clear();
  for (const auto& [id, streams] : std::exchange(relayed_, {})) {
    for (const auto& weak : streams) {
      if (const auto events = weak.lock()) events->end();
    }
  }
}

void JobOwners::relay(const std::string& id, const std::string& url, net::HttpResponse& response) {
  if (response.stream == nullptr) return;
  const auto relayed = std::make_shared<RelayedEvents>(std::move(response.stream), url);
  std::vector<std::weak_ptr<RelayedEvents>>& all = relayed_[id];
  std::erase_if(all, [](const auto& weak) { return weak.expired(); });
  all.push_back(relayed);
  response.stream = relayed;
}

void JobOwners::route(const std::string& id, net::HttpRequest request, net::Reply reply,
                      Handler here) {
  // A GET may wait for its response: it is kept, and sent to the new owner if the job moves.
  if (request.method != "GET" && is_here(id)) return here(std::move(request), std::move(reply));
  go(std::make_shared<Asked>(
      Asked{id, std::move(request), std::move(reply), std::move(here), hosting_.clock().now()}));
}

void JobOwners::go(const AskedPtr& asked) {
  if (is_here(asked->id)) return respond_here(asked);
  // Only the database knows if another server has the job now. A server that was suspended reaches
  // it in a moment; a server that is cut off may not for a long time.
  if (hosting_.table().holds(asked->id) && !hosting_.claims().is_lease_held()) {
    const std::string why = "this server cannot reach the database";
    if (asked->request.forwarded) return asked->reply(error_of(asked->request.path, 421, why));
    const bool may_wait = waits_for_other_ranks(asked->request);
    return again(asked, why, may_wait ? options_.patience : kLapse);
  }
  const auto known = elsewhere_.find(asked->id);
  if (known == elsewhere_.end() || asked->request.forwarded) return look(asked);
  hand_on(asked, known->second);
}

void JobOwners::look(const AskedPtr& asked) {
  if (worker_->waiting(asked->request.client) >= kMostLookUps) {
    return again(asked, "too many requests of this client for jobs at once");
  }
  std::vector<AskedPtr>& waiting = looking_[asked->id];
  waiting.push_back(asked);
  if (waiting.size() > 1) return;
  worker_->run(asked->request.client, [this, id = asked->id] {
    on_loop([this, id, found = find_owner(id)] { looked(id, found); });
  });
}

Result<JobOwners::Found> JobOwners::find_owner(const std::string& id) {
  const Instant began = hosting_.clock().now();
  const std::optional<JobOwner> owner = HARPE_TRY(store_.owner(id));
  if (owner && !owner->own) {
    // An earlier server at this URL, whose lease may still be valid.
    if (owner->url == options_.url) {
      return Error::of(ErrorCode::kUnavailable,
                       "the lease of the previous server has not ended yet");
    }
    return Found{.began = began, .url = owner->url};
  }
  const std::optional<JobSummary> before = HARPE_TRY(store_.summary(id));
  if (!before) return Found{.began = began};
  const std::optional<JobClaim> mine = HARPE_TRY(store_.claim(id));
  if (!mine) return Error::of(ErrorCode::kUnavailable, "the job is moving to another server");
  // Reads again, because the last owner may have written before the claim.
  std::optional<JobSummary> summary = HARPE_TRY(store_.summary(id));
  if (!summary) return Found{.began = began};
  static_cast<void>(store_.notify(std::string(kMoved) + id));
  return Found{.began = began, .taken = Taken{*std::move(summary), *mine}};
}

void JobOwners::move_in(Taken job) {
  const std::string id = job.summary.job;
  forget(id);
  if (hosting_.memory().take_up(std::move(job.summary), job.claim))
    log_("job " + id + " has moved here");
}

void JobOwners::looked(const std::string& id, const Result<Found>& found) {
  std::vector<AskedPtr> waiting = std::move(looking_[id]);
  looking_.erase(id);
  if (found.ok() && found->taken) move_in(*found->taken);
  if (found.ok() && !found->url.empty()) {
    forget(id, found->url);
    elsewhere_[id] = found->url;
  }
  const bool is_unknown = found.ok() && found->url.empty() && !found->taken;
  for (const AskedPtr& asked : waiting) {
    if (!found.ok()) {
      again(asked, found.error().text());
    } else if (is_unknown && asked->at > found->began) {
      look(asked);  // another server may have registered it since the look-up began
    } else if (found->url.empty()) {
      respond_here(asked);
    } else if (asked->request.forwarded) {
      asked->reply(
          error_of(asked->request.path, 421, "job " + id + " is at another server, " + found->url));
    } else {
      hand_on(asked, found->url);
    }
  }
}

void JobOwners::respond_here(const AskedPtr& asked) {
  asked->here(asked->request, [this, alive = alive_, asked](net::HttpResponse response) {
    const bool is_here = response.status != 421 || asked->request.forwarded;
    if (is_here || !*alive) return asked->reply(std::move(response));
    again(asked, "the job is moving");
  });
}

void JobOwners::hand_on(const AskedPtr& asked, const std::string& url) {
  options_.forward(
      url, asked->request, [this, alive = alive_, asked, url](Result<net::HttpResponse> response) {
        if (response.ok() && response->status != 421) {
          if (*alive) relay(asked->id, url, *response);
          return asked->reply(*std::move(response));
        }
        const std::string why = response.ok() ? "the job is moving" : response.error().text();
        if (!*alive) return asked->reply(unavailable(asked->request.path, why));
        elsewhere_.erase(asked->id);
        again(asked, why);
      });
}

void JobOwners::again(const AskedPtr& asked, const std::string& why, Seconds patience) {
  if (asked->request.presence != nullptr && asked->request.presence->has_left()) return;
  const Instant now = hosting_.clock().now();
  if (!asked->deadline) asked->deadline = now + patience;
  if (asked->request.forwarded || now + asked->pause > *asked->deadline) {
    return asked->reply(unavailable(asked->request.path,
                                    "the server that has job " + asked->id +
                                        " does not respond; try again in a moment (" + why + ")"));
  }
  const Seconds pause = asked->pause;
  asked->pause = std::min(pause * 2, kLongestPause);
  loop_.after(pause, [this, alive = alive_, asked] {
    if (*alive) go(asked);
  });
}

// --- All jobs -----------------------------------------------------------------------------------

void JobOwners::route_list(net::HttpRequest request, net::Reply reply, const Handler& here) {
  if (request.forwarded || request.method != "GET") {
    return here(std::move(request), std::move(reply));
  }
  const std::string client = request.client;
  worker_->run(client, [this, request = std::move(request), reply = std::move(reply), here]() {
    on_loop([this, request, reply, here, owners = store_.owners()] {
      here(request, [this, alive = alive_, request, reply, owners](const net::HttpResponse& own) {
        if (own.status != 200 || !*alive) return reply(own);
        const auto lists = std::make_shared<Lists>(
            Lists{.reply = reply, .limit = most_listed(request.query), .missing = 1});
        std::set<std::string> urls;
        if (owners.ok()) {
          for (const auto& [id, url] : *owners) urls.insert(url);
          urls.erase(options_.url);
        } else {
          lists->unreachable.push_back(owners.error().text());
        }
        lists->missing += urls.size();
        for (const std::string& url : urls) {
          options_.forward(url, request, [lists, url](const Result<net::HttpResponse>& list) {
            lists->take(url, list.ok() ? &*list : nullptr);
          });
        }
        lists->take(options_.url, &own);
      });
    });
  });
}

void JobOwners::tick() {
  std::erase_if(relayed_, [](const auto& one) {
    return std::ranges::all_of(one.second, [](const auto& weak) { return weak.expired(); });
  });
  if (std::exchange(looking_around_, true)) return;
  worker_->run(kOwnWork, [this] {
    const Result<std::vector<std::string>> homeless = store_.ownerless();
    std::vector<Taken> taken;
    for (const std::string& id : homeless.ok() ? *homeless : std::vector<std::string>()) {
      if (taken.size() == kMostAtOnce) break;
      if (auto owner = find_owner(id); owner.ok() && owner->taken) taken.push_back(*owner->taken);
    }
    on_loop([this, taken = std::move(taken)] {
      looking_around_ = false;
      for (const Taken& job : taken) move_in(job);
    });
  });
}

}  // namespace harpe::training
