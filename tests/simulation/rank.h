#pragma once
/// \file
/// A rank of a training job in simulated time: the client's communication with its server, and the
/// assignments it follows, over a simulated network. The threads of a real client are one here.

#include <memory>
#include <optional>
#include <string>

#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/server_session.h"
#include "harpe/training/wire/pause_book.h"
#include "simulation/network.h"
#include "simulation/process.h"

namespace harpe::simulation {

class Rank {
 public:
  /// \param address  of the server given to the rank
  Rank(Process& process, Network& network, std::string address,
       training::ServerSessionOptions options, std::size_t instructions);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Process& process() { return process_; }
  const Process& process() const { return process_; }
  /// Returns the assignment for an iteration that begins now; none: its clocks are free.
  std::optional<training::StageAssignment> in_force(std::int64_t iteration) const;
  bool governed() const { return governed_; }
  /// Returns the life of the job in which the rank registered.
  const std::string& incarnation() const { return session_.incarnation(); }
  std::uint64_t newest() const { return book_.newest(); }

  /// Returns the time since the last confirmation that a server has this rank, while it ran.
  Seconds unconfirmed() const;
  void go_on() { went_on_ = process_.clock().now(); }

  /// Returns the pause request for this iteration, if any.
  std::optional<training::PauseRequest> pause_before(std::int64_t iteration) {
    auto asked = pauses_.before(iteration);
    reached_ = asked ? iteration - 1 : iteration;
    return asked;
  }
  /// Begins to pause.
  void pause(const training::PauseRequest& pause, std::int64_t iteration);
  /// Returns whether it still pauses.
  bool is_pausing();

  /// Reports the end of an iteration. \param report  by the assignments in force
  void report(training::IterationReport report, Instant began);
  /// Ends training in order.
  void end();

 private:
  class Link final : public net::HttpLink {
   public:
    Link(Rank& rank, Network& network, std::string address)
        : rank_(rank), network_(network), address_(std::move(address)) {}
    void send(const std::string& method, const std::string& path, std::string body,
              std::function<void(net::HttpResult)> done) override;
    void listen(const std::string& path, std::function<void(std::string_view)> bytes,
                std::function<void(net::HttpResult)> ended) override;
    void stop_listening() override;
    bool renew_token() override { return false; }
    void step(Seconds) override {}
    void wake() override {}

   private:
    struct Stream;
    net::HttpRequest request(const std::string& method, const std::string& target,
                             std::string body) const;
    void watch_silence(const std::shared_ptr<Stream>& stream);
    Rank& rank_;
    Network& network_;
    const std::string address_;
    std::shared_ptr<Stream> stream_;
  };

  training::ServerSession::Listener listener();
  /// Runs pending work, and schedules itself for the next.
  void move_on();

  Process& process_;
  Link link_;
  training::AssignmentBook book_;
  training::PauseBook pauses_;
  std::optional<training::PauseRequest> paused_;  ///< the request it follows
  std::int64_t paused_before_ = 0;                ///< iteration
  std::int64_t reached_ = -1;                     ///< `PauseBoard::reached`
  Instant alone_since_{};                         ///< if no server has this rank
  bool governed_ = false;
  Instant forgotten_{};
  Instant heard_{};    ///< last success, or last data on a stream
  Instant went_on_{};  ///< when it last continued after a stop
  training::ServerSession session_;
  std::uint64_t turn_ = 0;  ///< makes earlier timers do nothing
};

}  // namespace harpe::simulation
