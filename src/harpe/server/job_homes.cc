#include "harpe/server/job_homes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/http/http_answers.h"
#include "harpe/server/zeus_requests.h"

namespace harpe {
namespace {

constexpr std::string_view kMoved = "moved ";
/// Taken up at a time by a server that looks around, so that several share what one had.
constexpr std::size_t kMostAtOnce = 64;
constexpr Seconds kFirstPause{0.05}, kLongestPause{0.5};
/// Whose turns at the worker are those of no client.
const std::string kOwnWork;
/// Of one client, that wait for the store: others have their turns in between.
constexpr std::size_t kMostLookUps = 256;

/// In the form of the path's routes.
HttpResponse error_of(const std::string& path, int status, const std::string& why) {
  return is_native_path(path) ? native_error(status, "unavailable", why) : zeus_error(status, why);
}

HttpResponse unavailable(const std::string& path, const std::string& why) {
  HttpResponse response = error_of(path, 503, why);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

/// Answers of several servers, put together when all are there.
struct Lists {
  Reply reply;
  std::map<std::string, OrderedJson> jobs = {};  ///< by id
  std::vector<std::string> unreachable = {};
  std::size_t missing = 0;

  void take(const std::string& url, const HttpResponse* response) {
    const OrderedJson document = response != nullptr && response->status == 200
                                     ? OrderedJson::parse(response->body, nullptr, false)
                                     : OrderedJson();
    const auto list = document.find("jobs");
    if (list == document.end() || !list->is_array()) {
      unreachable.push_back(url);
    } else {
      for (const OrderedJson& job : *list) jobs.insert_or_assign(job.value("id", ""), job);
    }
    if (--missing > 0) return;
    OrderedJson all = OrderedJson::array();
    for (auto& [id, job] : jobs) all.push_back(std::move(job));
    OrderedJson answer{{"jobs", std::move(all)}};
    if (!unreachable.empty()) answer["unreachable"] = unreachable;
    reply(json_response(200, answer));
  }
};

}  // namespace

/// One request on its way to the home of its job.
struct JobHomes::Asked {
  const std::string id;
  const HttpRequest request;
  const Reply reply;
  const Handler here;
  std::optional<Instant> deadline = {};  ///< from when its home could first not be asked
  Seconds pause = kFirstPause;
};

JobHomes::JobHomes(ServerLoop& loop, JobRegistry& registry, Store& store, Options options,
                   std::function<void(const std::string&)> log)
    : loop_(loop),
      registry_(registry),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      worker_({.threads = 1}) {}

JobHomes::~JobHomes() {
  *alive_ = false;
  static_cast<void>(store_.listen({}));
}

void JobHomes::on_loop(std::function<void()> work) {
  loop_.post([alive = alive_, work = std::move(work)] {
    if (*alive) work();
  });
}

Status JobHomes::start() {
  return store_.listen([this](const StoreNotice& notice) {
    on_loop([this, notice] {
      if (notice.kind == StoreNotice::Kind::kLookAgain) return elsewhere_.clear();
      if (notice.own || !notice.text.starts_with(kMoved)) return;
      elsewhere_.erase(notice.text.substr(kMoved.size()));
      unknown_.remove(notice.text.substr(kMoved.size()));
    });
  });
}

void JobHomes::route(const std::string& id, HttpRequest request, Reply reply, Handler here) {
  // What waits for its answer (GET) is asked for elsewhere if the job moves meanwhile.
  if (request.method != "GET" && registry_.holds(id)) {
    return here(std::move(request), std::move(reply));
  }
  go(std::make_shared<Asked>(Asked{id, std::move(request), std::move(reply), std::move(here)}));
}

void JobHomes::go(const AskedPtr& asked) {
  if (registry_.holds(asked->id)) return answer_here(asked);
  if (unknown_.contains(asked->id, registry_.clock().now())) return answer_here(asked);
  const auto known = elsewhere_.find(asked->id);
  if (known == elsewhere_.end() || asked->request.forwarded) return look(asked);
  hand_on(asked, known->second);
}

void JobHomes::look(const AskedPtr& asked) {
  if (worker_.waiting(asked->request.client) >= kMostLookUps) {
    return again(asked, "you ask for too many jobs at once");
  }
  std::vector<AskedPtr>& waiting = looking_[asked->id];
  waiting.push_back(asked);
  if (waiting.size() > 1) return;
  worker_.run(asked->request.client, [this, id = asked->id, now = registry_.now()] {
    on_loop([this, id, found = find_home(id, now)] { looked(id, found); });
  });
}

Result<JobHomes::Found> JobHomes::find_home(const std::string& id, Seconds now) {
  const Result<std::optional<std::string>> owner = store_.owner(id);
  if (!owner.ok()) return owner.error();
  if (*owner && **owner != options_.url) return Found{**owner, nullptr};
  const Result<std::optional<StoredJob>> before = store_.job(id);
  if (!before.ok()) return before.error();
  if (!*before || unreadable_.contains(id)) return Found{};
  const Result<bool> mine = store_.claim(id, options_.url);
  if (!mine.ok()) return mine.error();
  if (!*mine) return Error::of(ErrorCode::kUnavailable, "the job is moving to another server");
  // Once more: its last owner may have written until then.
  const Result<std::optional<StoredJob>> stored = store_.job(id);
  if (!stored.ok()) return stored.error();
  if (!*stored) return Found{};
  Result<JobRegistry::JobPtr> job = read_hosted_job(store_, **stored, now, log_);
  if (!job.ok()) {
    if (job.error().code == ErrorCode::kUnavailable) return std::move(job).error();
    unreadable_.insert(id);
    log_("job " + id + " cannot be read and is left as it is: " + job.error().text());
    static_cast<void>(store_.release(id));
    return Found{};
  }
  static_cast<void>(store_.notify(std::string(kMoved) + id));
  return Found{{}, *std::move(job)};
}

void JobHomes::move_in(const JobRegistry::JobPtr& job) {
  elsewhere_.erase(job->id);
  if (registry_.holds(job->id)) return;
  registry_.add(job);
  log_("job " + job->id + " has moved here");
}

void JobHomes::looked(const std::string& id, const Result<Found>& found) {
  std::vector<AskedPtr> waiting = std::move(looking_[id]);
  looking_.erase(id);
  if (found.ok() && found->job != nullptr) move_in(found->job);
  if (found.ok() && !found->url.empty()) elsewhere_[id] = found->url;
  if (found.ok() && found->url.empty() && found->job == nullptr) {
    unknown_.add(id, registry_.clock().now());
  }
  for (const AskedPtr& asked : waiting) {
    if (!found.ok()) {
      again(asked, found.error().text());
    } else if (found->url.empty()) {
      answer_here(asked);
    } else if (asked->request.forwarded) {
      asked->reply(
          error_of(asked->request.path, 421, "job " + id + " is at another server, " + found->url));
    } else {
      hand_on(asked, found->url);
    }
  }
}

void JobHomes::answer_here(const AskedPtr& asked) {
  asked->here(asked->request, [this, alive = alive_, asked](HttpResponse response) {
    const bool is_here = response.status != 421 || asked->request.forwarded;
    if (is_here || !*alive) return asked->reply(std::move(response));
    again(asked, "the job is moving");
  });
}

void JobHomes::hand_on(const AskedPtr& asked, const std::string& url) {
  options_.forwarder.forward(
      url, asked->request, [this, alive = alive_, asked](Result<HttpResponse> response) {
        if (response.ok() && response->status != 421) return asked->reply(*std::move(response));
        const std::string why = response.ok() ? "the job is moving" : response.error().text();
        if (!*alive) return asked->reply(unavailable(asked->request.path, why));
        elsewhere_.erase(asked->id);
        again(asked, why);
      });
}

void JobHomes::again(const AskedPtr& asked, const std::string& why) {
  const Instant now = registry_.clock().now();
  if (!asked->deadline) asked->deadline = now + options_.patience;
  if (asked->request.forwarded || now + asked->pause > *asked->deadline) {
    return asked->reply(unavailable(
        asked->request.path, "the server that has job " + asked->id +
                                 " cannot be asked now; try again in a moment (" + why + ")"));
  }
  const Seconds pause = asked->pause;
  asked->pause = std::min(pause * 2, kLongestPause);
  loop_.after(pause, [this, alive = alive_, asked] {
    if (*alive) go(asked);
  });
}

// --- All jobs -----------------------------------------------------------------------------------

void JobHomes::route_list(HttpRequest request, Reply reply, const Handler& here) {
  if (request.forwarded || request.method != "GET") {
    return here(std::move(request), std::move(reply));
  }
  const std::string client = request.client;
  worker_.run(client, [this, request = std::move(request), reply = std::move(reply),
                       here]() mutable {
    on_loop([this, request = std::move(request), reply = std::move(reply), here,
             owners = store_.owners()]() mutable {
      std::set<std::string> urls;
      const auto lists = std::make_shared<Lists>(Lists{.reply = std::move(reply)});
      if (owners.ok()) {
        for (const auto& [id, url] : *owners) urls.insert(url);
        urls.erase(options_.url);
      } else {
        lists->unreachable.push_back(owners.error().text());
      }
      lists->missing = urls.size() + 1;
      for (const std::string& url : urls) {
        options_.forwarder.forward(url, request, [lists, url](const Result<HttpResponse>& answer) {
          lists->take(url, answer.ok() ? &*answer : nullptr);
        });
      }
      here(std::move(request), [lists](const HttpResponse& answer) { lists->take({}, &answer); });
    });
  });
}

void JobHomes::tick() {
  if (std::exchange(looking_around_, true)) return;
  worker_.run(kOwnWork, [this, now = registry_.now()] {
    Result<std::vector<std::string>> homeless = store_.ownerless();
    std::vector<JobRegistry::JobPtr> found;
    for (const std::string& id : homeless.ok() ? *homeless : std::vector<std::string>()) {
      if (found.size() == kMostAtOnce) break;
      if (const auto home = find_home(id, now); home.ok() && home->job) found.push_back(home->job);
    }
    on_loop([this, found = std::move(found)] {
      looking_around_ = false;
      for (const JobRegistry::JobPtr& job : found) move_in(job);
    });
  });
}

}  // namespace harpe
