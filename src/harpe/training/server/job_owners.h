#pragma once
/// \file
/// Ownership of jobs when several servers share a database.
///
/// A job belongs to one server, its owner in the store; every other server forwards requests for
/// the job to the owner, so clients can use any server. When the owner ends for any reason, the
/// first server that receives a request for the job, or that looks for jobs without an owner, takes
/// it over. Requests for a job whose owner has just ended wait for a new owner; requests for a job
/// whose owner's lease is over wait until the owner is known.

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

/// A router of requests to the servers that own their jobs. Used on the loop's thread.
class JobOwners {
 public:
  struct Options {
    std::string url;  ///< at which other servers reach this server
    /// Sends a request to another server: see `HttpForwarder::forward`.
    std::function<void(const std::string& url, const net::HttpRequest& request,
                       std::function<void(Result<net::HttpResponse>)> answered)>
        forward;
    /// How long a request waits for an owner that is missing or unreachable.
    Seconds patience = Seconds{10};
    MakeWorkers make_workers = WorkerPool::make;
  };

  /// All arguments must outlive this object. Jobs of `hosting` are owned by this server.
  JobOwners(Loop& loop, Hosting& hosting, Store& store, Options options,
            std::function<void(const std::string&)> log);
  ~JobOwners();
  JobOwners(const JobOwners&) = delete;
  JobOwners& operator=(const JobOwners&) = delete;

  /// Starts to listen for changes of owners.
  Status start();

  /// Handles a request on this server.
  using Handler = std::function<void(net::HttpRequest, net::Reply)>;
  /// Calls `here` if this server owns the job or no server does, else forwards the request. Calls
  /// `here` again with the same request if it returns status 421.
  void route(const std::string& id, net::HttpRequest request, net::Reply reply, Handler here);

  /// Handles a request for a list, {"jobs": [...]}, which `here` answers for this server: merges
  /// the jobs of all servers, and lists servers (or the database) that did not respond under
  /// "unreachable".
  void route_list(net::HttpRequest request, net::Reply reply, const Handler& here);

  /// Looks for jobs without an owner. Call it every few seconds.
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
  /// Location of a job: at a URL, on this server, or nowhere.
  struct Found {
    Instant began{};  ///< start of the look-up; answers earlier requests
    std::string url = {};
    std::optional<Taken> taken = {};
  };
  /// Returns true if the job is on this server and may be commanded.
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
  /// Forgets the owner of a job, unless it is at `url`.
  void forget(const std::string& id, const std::string& url = {});
  void forget_all();
  /// Called on the worker's thread.
  Result<Found> find_owner(const std::string& id);
  void on_loop(std::function<void()> work);

  Loop& loop_;
  Hosting& hosting_;
  Store& store_;
  Options options_;
  std::function<void(const std::string&)> log_;
  std::map<std::string, std::string> elsewhere_;  ///< URLs of known owners, by job
  std::map<std::string, std::vector<AskedPtr>> looking_;
  std::map<std::string, std::vector<std::weak_ptr<RelayedEvents>>> relayed_;  ///< by job
  bool looking_around_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Workers> worker_;  // last: its thread ends before the data it uses is destroyed
};

}  // namespace harpe::training
