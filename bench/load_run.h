#pragma once
/// \file
/// Ten thousand simulated ranks against one server: they register, report every iteration, receive
/// assignments and follow them, while pipelines become stragglers and recover.

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "load_connections.h"
#include "load_job.h"

namespace harpe::bench {

struct LoadOptions {
  LoadShape shape;
  Seconds train{60};
  /// Time between two changes, which alternate between straggler and recovered.
  Seconds change_every{3};
  /// All ranks end an iteration within this time.
  Seconds spread{0.05};
  /// Number of ranks that report over one connection, as with a proxy per node. Each rank has its
  /// own event stream.
  int ranks_a_connection = 1;
  /// Number of ranks with an event stream. The others receive assignments in the responses to their
  /// reports.
  int listeners = std::numeric_limits<int>::max();
  std::uint64_t seed = 1;
};

/// What was measured and counted.
struct LoadResult {
  double register_s = 0, subscribe_s = 0, plan_s = 0;
  std::int64_t iterations = 0;
  std::int64_t sent = 0, accepted = 0, refused = 0;  ///< reports sent, and their outcomes
  std::int64_t counted_by_server = 0;
  std::int64_t assignments_late =
      0;  ///< reached a rank after the start of the iteration from which they hold
  int changes = 0, ranks_missed = 0;  ///< ranks that did not get a change within 10 s
  /// Ranks whose newest assignments at the end differ from those of the server.
  int ranks_behind = 0;
  int connections_lost = 0;
  /// Seconds from the request of a change until a rank has its assignments: for ranks with an event
  /// stream, and for the others.
  std::vector<double> delays, delays_of_others;
  std::vector<double> whole;      ///< s until the last rank had them, one entry per change
  std::vector<double> responses;  ///< s from a report to its response
  std::string first_fault;
};

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, LoadJob& job, std::string address, int port);
  /// Runs all steps in order. Returns an error only if there is nothing to measure.
  Result<LoadResult> run();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Rank {
    int reports = -1, events = -1;  ///< connections
    const RankAssignments* assignments = nullptr;
    bool registered = false, behind = false;
    Time sent;  ///< time of the report whose response is pending
  };
  /// The state of one iteration.
  struct Iteration {
    std::int64_t number = -1;
    Seconds length{};
    std::vector<const RankAssignments*> by;  ///< the assignments that each rank has at its start
    std::vector<int> in_force;               ///< index of the assignment in force
    std::vector<double> factor;              ///< of each pipeline
  };
  /// A requested change of a straggler.
  struct Change {
    bool open = false;
    std::uint64_t before = 0, version = 0;  ///< 0: not known yet
    Time asked;
    std::vector<double> delay;       ///< of each rank; below 0 if it does not have the change
    std::vector<std::uint64_t> had;  ///< the version that each rank received
    int missing = 0;
  };

  int ranks() const { return options_.shape.data * options_.shape.stages; }
  int stage_of(int rank) const { return rank % options_.shape.stages; }
  bool listens(int rank) const { return rank < options_.listeners; }
  int pipeline_of(int rank) const { return rank / options_.shape.stages; }
  std::string path(const std::string& rest) const { return "/v1/jobs/load" + rest; }
  static double since(Time begin);
  void error(const std::string& why);

  Result<int> open(int rank, bool listens);
  void ask(int rank, const std::string& rest, const std::string& body);
  Status register_all();
  Status subscribe_all();
  Status wait_for_plans();
  void train();
  void begin_iteration();
  void send_report(int rank);
  void send_reports_due(Time begun, Time now);
  void change_something();
  void finish_change();
  Status compare_with_server();

  void answered(int id, int status, std::string_view body);
  void got_assignments(int rank, std::string_view text);
  void note_arrival(int rank, std::uint64_t version);

  LoadOptions options_;
  LoadJob& job_;
  std::string address_;
  int port_;
  LoadConnections connections_;
  std::vector<Rank> ranks_;
  std::vector<int> listener_of_;           ///< rank with an event stream on the connection; -1:
                                           ///< none
  std::vector<std::deque<int>> asked_by_;  ///< ranks per connection that wait for a response
  int people_ = -1;
  int outstanding_ = 0;

  std::vector<double> factor_;  ///< of each pipeline
  Iteration under_way_, ended_;
  std::vector<int> to_report_;  ///< ranks in the order in which they end an iteration
  std::size_t reported_ = 0;    ///< number of ranks that have reported the ended iteration
  int straggler_ = -1;
  std::uint64_t newest_ = 0;  ///< newest version that any rank has received
  Change change_;
  std::mt19937_64 random_;
  LoadResult result_;
};

}  // namespace harpe::bench
