#pragma once
/// \file
/// Which server has a job, where several servers share a database.
///
/// A job belongs to one server, its owner by the store; every other server hands requests
/// for it on to there, so that any of them can be asked. When its server ends, however it ends, the
/// job is taken up by the first one that is asked for it, or that looks for jobs without an owner.
/// Requests that meet an owner that has just gone wait until the job has another; so do those that
/// meet one whose lease is over, until it is known who has the job.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"
#include "harpe/training/server/hosting.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// On the loop's thread.
class JobOwners {
 public:
  struct Options {
    std::string url;  ///< where others reach this server
    /// Asks another server for what a request asks for: see `HttpForwarder::forward`.
    std::function<void(const std::string& url, const net::HttpRequest& request,
                       std::function<void(Result<net::HttpResponse>)> answered)>
        forward;
    /// With an owner that cannot be reached, or none.
    Seconds patience = Seconds{10};
    MakeWorkers make_workers = WorkerPool::make;
  };

  /// All must outlive this. Jobs of `hosting` are those that this server owns.
  JobOwners(Loop& loop, Hosting& hosting, Store& store, Options options,
            std::function<void(const std::string&)> log);
  ~JobOwners();
  JobOwners(const JobOwners&) = delete;
  JobOwners& operator=(const JobOwners&) = delete;

  /// Hears of moves from now on.
  Status start();

  /// Answers a request here.
  using Handler = std::function<void(net::HttpRequest, net::Reply)>;
  /// Lets `here` answer where this server owns the job, or no server does; hands the request on
  /// where it is elsewhere. `here` may be called again with the same request if it answers 421.
  void route(const std::string& id, net::HttpRequest request, net::Reply reply, Handler here);

  /// Answers a request for a list, {"jobs": [...]}, that `here` answers for this server, with the
  /// jobs of all servers, and what did not answer (servers, or the database) under "unreachable".
  void route_list(net::HttpRequest request, net::Reply reply, const Handler& here);

  /// Looks for jobs that have no owner any more. Call every few seconds.
  void tick();

 private:
  struct Asked;
  using AskedPtr = std::shared_ptr<Asked>;
  class RelayedEvents;
  /// A job that this server has claimed.
  struct Taken {
    JobSummary summary;
    JobClaim claim;
  };
  /// Where a job is: at a URL, here, or nowhere.
  struct Found {
    Instant began{};  ///< what was made before is found
    std::string url = {};
    std::optional<Taken> taken = {};
  };
  /// The job, where it is here and may be commanded.
  bool is_here(const std::string& id) const { return hosting_.claims().commands(id); }

  void go(const AskedPtr& asked);
  void look(const AskedPtr& asked);
  void looked(const std::string& id, const Result<Found>& found);
  void respond_here(const AskedPtr& asked);
  void hand_on(const AskedPtr& asked, const std::string& url);
  void again(const AskedPtr& asked, const std::string& why) {
    again(asked, why, options_.patience);
  }
  void again(const AskedPtr& asked, const std::string& why, Seconds patience);
  void move_in(Taken job);
  void relay(const std::string& id, const std::string& url, net::HttpResponse& response);
  /// What is known of where the job is holds no more, unless it is at `url`.
  void forget(const std::string& id, const std::string& url = {});
  void forget_all();
  /// On the worker's thread.
  Result<Found> find_owner(const std::string& id);
  void on_loop(std::function<void()> work);

  Loop& loop_;
  Hosting& hosting_;
  Store& store_;
  Options options_;
  std::function<void(const std::string&)> log_;
  std::map<std::string, std::string> elsewhere_;  ///< URLs of owners that were found, by job
  std::map<std::string, std::vector<AskedPtr>> looking_;
  std::map<std::string, std::vector<std::weak_ptr<RelayedEvents>>> relayed_;  ///< by job
  bool looking_around_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Workers> worker_;  // last: its thread ends before what it works on goes
};

}  // namespace harpe::training
