#pragma once
/// \file
/// HTTP in simulated time: requests, responses and event streams between processes, with network
/// faults. Bytes are not simulated: parsing them is tested elsewhere.
///
/// Messages have a delay. If the link is cut, a message waits, as with TCP, and arrives when the
/// link works again, if its connection still exists; until then both ends see only silence. A
/// connection may break before a request arrives or before its response does. The client detects
/// that at once, but cannot tell which. Messages on one connection arrive in order.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"
#include "simulation/process.h"

namespace harpe::simulation {

/// Header that marks a response as forwarded from another server.
inline constexpr const char* kHandedOn = "X-Handed-On";

class Network {
 public:
  struct Quality {
    Seconds soonest{1e-4}, latest{0.02};  ///< delay of a message
    double breaks = 0;                    ///< share of requests whose connection breaks
  };

  /// Handles a request, on the server's loop.
  using Handler = std::function<void(net::HttpRequest, net::Reply)>;
  /// Called with every response, and every piece of a stream, when a server sends it, and whether
  /// it is forwarded from another server.
  using Watch = std::function<void(const std::string& server, const net::HttpRequest& request,
                                   int status, const std::string& bytes, bool handed_on)>;

  Network(Scheduler& scheduler, std::uint64_t seed) : scheduler_(scheduler), random_(seed, "net") {}

  Quality quality;
  Watch watch;

  /// Sets the process that serves this address from now on; without a handler, none.
  void serve(const std::string& address, Process* process, Handler handler);

  // The link between two machines, by the names of their processes.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  void heal_all();
  bool is_cut(const std::string& a, const std::string& b) const;

  /// Callbacks of a client, on its loop: first `answered`, then `bytes` if the response is a
  /// stream; `ended` comes last, unless the client has left.
  struct Client {
    std::function<void(Result<net::HttpResponse>)> answered;
    std::function<void(std::string)> bytes = [](const std::string&) {};
    std::function<void(std::string why)> ended = [](const std::string&) {};
  };
  class Exchange;
  using ExchangePtr = std::shared_ptr<Exchange>;
  /// \param timeout  for the response, or its head, by the client's clock
  ExchangePtr ask(Process& client, const std::string& address, net::HttpRequest request,
                  Seconds timeout, Client hears);

 private:
  struct Served {
    Process* process = nullptr;
    Handler handler;
    std::map<std::uint64_t, ExchangePtr> open;  ///< by number, so that the order is reproducible
  };
  using Way = std::pair<std::string, std::string>;
  static Way way(const std::string& a, const std::string& b) {
    return a < b ? Way(a, b) : Way(b, a);
  }
  void arrive(const ExchangePtr& exchange);
  void respond(const ExchangePtr& exchange, net::HttpResponse response);
  void drain(const ExchangePtr& exchange);
  void carry(const std::string& from, const std::string& to, Instant& last,
             std::function<void()> arrives);
  void to_client(const ExchangePtr& exchange, std::function<void()> work);
  void fail(const ExchangePtr& exchange, const std::string& why);
  void leave(const ExchangePtr& exchange);
  void close(const ExchangePtr& exchange);

  Scheduler& scheduler_;
  Random random_;
  std::uint64_t last_number_ = 0;
  std::map<std::string, Served> served_;
  std::set<Way> cut_;
  std::map<Way, std::vector<std::function<void()>>> held_;

  friend class Exchange;
};

/// One request with its response, on a separate connection.
class Network::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Network& network, std::uint64_t number, Process& client, std::string address,
           net::HttpRequest request, Client hears)
      : network_(network),
        number_(number),
        client_(client),
        address_(std::move(address)),
        request_(std::move(request)),
        hears_(std::move(hears)) {}
  /// Cancels the exchange: the client gets no more callbacks.
  void leave() { network_.leave(shared_from_this()); }

 private:
  friend class Network;
  Network& network_;
  const std::uint64_t number_;
  Process& client_;
  const std::string address_;
  net::HttpRequest request_;
  Client hears_;
  std::shared_ptr<net::ClientPresence> presence_;  ///< on the server's side
  std::shared_ptr<net::EventStream> stream_;
  Instant last_to_server_{}, last_to_client_{};
  bool arrived_ = false, answered_ = false;
  bool over_ = false;    ///< for the client
  bool closed_ = false;  ///< at the server
  bool draining_ = false, handed_on_ = false;
};

}  // namespace harpe::simulation
