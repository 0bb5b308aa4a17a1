// Training without the mathematics: pipelines x stages as processes that exchange activations and
// gradients over sockets, each computing on a simulated GPU of its own, with Harpe's client as in a
// real trainer. Lines for Harpe are marked "Harpe".
//
//   trainer --simulation FILE --iterations N [--data 2] [--stages 4] [--micro-batches 8]
//           [--forward-s 0.02] [--imbalance 1.0,1.1,0.9,1.2] [--server URL] [--agent CLOCK_SOCKET]
//           [--job NAME] [--slow PIPELINE:FACTOR:FROM:TO] [--control FILE] [--log FILE.csv]
//
// Stage s of pipeline d computes on GPU d x stages + s of the simulation. `--control`: a file that
// is read while training runs: "slow PIPELINE FACTOR" (factor 1: normal again), "stop". The log has
// a row for each iteration of each rank: its start, the reading of the GPU's own counter, and the
// assignments in force.
// assignments that held.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/rank_client_options.h"
#include "harpe/training/wire/job_shape.h"
#include "harpe/training/wire/job_spec.h"

namespace {

using harpe::Instruction;
using harpe::InstructionKind;
using harpe::Seconds;

constexpr std::size_t kWidth = 1024;  // numbers in an activation
constexpr double kBackwardShare = 2;  // a backward takes as long as this many forwards
constexpr double kMemoryBound = 0.15;

struct Options {
  std::string simulation, server, agent, job = "trainer", control, log;
  int data = 2, stages = 4, micro_batches = 8;
  long iterations = 0;
  double forward_s = 0.02;
  std::vector<double> imbalance;
  int slow_pipeline = -1;
  double slow_factor = 1;
  long slow_from = 0, slow_to = 0;
};

/// Memory shared by all processes.
struct Shared {
  std::atomic<long> stop_at;       ///< the first iteration that is not run
  std::atomic<long> newest;        ///< newest iteration that any rank has begun
  std::atomic<double> factor[64];  ///< of each pipeline, from the control file
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "trainer: %s\n", what.c_str());
  std::_Exit(1);
}

using Message = std::vector<float>;

void send_all(int socket, const Message& message) {
  const char* at = reinterpret_cast<const char*>(message.data());
  std::size_t left = message.size() * sizeof(float);
  while (left > 0) {
    const ssize_t sent = ::send(socket, at, left, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("a neighbour has gone");
    at += sent;
    left -= static_cast<std::size_t>(sent);
  }
}

Message receive(int socket) {
  Message message(kWidth);
  char* at = reinterpret_cast<char*>(message.data());
  std::size_t left = message.size() * sizeof(float);
  while (left > 0) {
    const ssize_t got = ::recv(socket, at, left, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("a neighbour has gone");
    at += got;
    left -= static_cast<std::size_t>(got);
  }
  return message;
}

/// The sockets of one rank; -1: none.
struct Wires {
  int previous = -1, next = -1;  ///< stages of the same pipeline
  int root = -1;                 ///< the same stage of pipeline 0
  std::vector<int> others;       ///< only in pipeline 0: the same stage of the other pipelines
};

class Rank {
 public:
  Rank(const Options& options, int pipeline, int stage, Wires wires, Shared& shared)
      : options_(options),
        pipeline_(pipeline),
        stage_(stage),
        gpu_(pipeline * options.stages + stage),
        wires_(std::move(wires)),
        shared_(shared) {
    auto schedule =
        harpe::one_f_one_b({.stages = options.stages, .micro_batches = options.micro_batches});
    if (!schedule.ok()) fail(schedule.error().text());
    schedule_ = *std::move(schedule);
    auto simulation = harpe::Simulation::open(options.simulation);
    if (!simulation.ok()) fail(simulation.error().text());
    simulation_ = *std::move(simulation);
    counter_ = simulation_->gpu(gpu_);
  }

  void train() {
    start_harpe();
    for (long iteration = 0; iteration < shared_.stop_at.load(); ++iteration) {
      if (iteration > shared_.newest.load()) shared_.newest = iteration;
      // Harpe: the request is for the same iteration on all ranks; a real trainer saves first.
      if (harpe_ && harpe_->pause_requested(iteration)) harpe_->wait_for_resume();
      if (harpe_) harpe_->on_iteration_begin(iteration);  // Harpe: optional
      log(iteration);
      for (const Instruction& one : schedule_.lists[static_cast<std::size_t>(stage_)]) {
        if (one.kind == InstructionKind::kForward) forward(iteration, one.micro_batch);
        if (one.kind == InstructionKind::kBackward) backward(iteration, one.micro_batch);
      }
      // Harpe: device times, as measured with CUDA events.
      if (harpe_) harpe_->on_iteration_end(device_times_);
      device_times_.clear();
      reduce_gradients();
    }
    log(shared_.stop_at.load());
    if (!options_.log.empty()) std::ofstream(log_name()) << log_.str();
  }

  std::string log_name() const { return options_.log + "." + std::to_string(gpu_); }

 private:
  void start_harpe() {
    if (options_.server.empty() && std::getenv("HARPE_SERVER") == nullptr) return;
    // Harpe: other options are read from the environment.
    harpe::RankClientOptions client;
    client.server = options_.server;
    client.job = options_.job;
    client.spec.shape = {.data = options_.data, .stages = options_.stages, .tensor = 1};
    client.spec.schedule = schedule_;
    client.spec.name = options_.job;
    job_options(client.spec);
    client.coordinates = harpe::RankCoordinates{pipeline_, stage_, 0};
    if (!options_.agent.empty()) client.clock_socket = options_.agent;
    client.gpu = gpu_;
    client.patience = {from_environment("TRAINER_PATIENCE_S", client.patience.value)};
    measured_ = simulation_->gpu(gpu_);
    client.measured = measured_.get();
    auto started = harpe::RankClient::start(std::move(client));
    if (!started.ok()) fail(started.error().text());
    harpe_ = *std::move(started);
  }

  static double from_environment(const char* name, double otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atof(text);
  }

  /// Options that a user would set for a job with such short iterations; from the environment, for
  /// experiments.
  static void job_options(harpe::JobSpec& spec) {
    const auto number = from_environment;
    spec.switch_latency = Seconds{number("TRAINER_SWITCH_LATENCY_S", 0.01)};
    spec.profiling.slowdown_limit = number("TRAINER_SLOWDOWN_LIMIT", 1);
    spec.profiling.warm_up = static_cast<int>(number("TRAINER_WARM_UP", 6));
    spec.profiling.most_clocks = static_cast<int>(number("TRAINER_CLOCKS", 5));
    spec.profiling.iterations_per_clock = static_cast<int>(number("TRAINER_ITERATIONS", 3));
    spec.profiling.most_iterations_per_clock = static_cast<int>(number("TRAINER_MOST", 4));
    spec.profiling.lowest_clock = {static_cast<int>(number("TRAINER_LOWEST_MHZ", 900))};
    spec.plans = static_cast<int>(number("TRAINER_PLANS", 30));
    const double blocking = number("TRAINER_BLOCKING_W", 0);
    if (blocking > 0) spec.blocking_power = harpe::Watts{blocking};
  }

  void compute(InstructionKind kind, int micro_batch, long iteration, double share) {
    const double balance = options_.imbalance[static_cast<std::size_t>(stage_)];
    Seconds time{options_.forward_s * share * balance * slowness(iteration)};
    const harpe::SimulatedWork work = simulation_->model_work(gpu_, time, kMemoryBound);
    if (harpe_) harpe_->on_instruction_begin(kind, 0, micro_batch);  // Harpe
    const auto span = simulation_->run(gpu_, work);
    if (harpe_) harpe_->on_instruction_end();  // Harpe
    if (!span.ok()) fail(span.error().text());
    device_times_.push_back({span->begin, span->end});
  }

  double slowness(long iteration) const {
    double factor = shared_.factor[pipeline_].load();
    if (pipeline_ == options_.slow_pipeline && iteration >= options_.slow_from &&
        iteration < options_.slow_to) {
      factor = std::max(factor, options_.slow_factor);
    }
    return factor;
  }

  /// Returns the value that a stage should receive for a micro-batch: every stage on the way adds
  /// one.
  static float expected(long iteration, int micro_batch, int hops) {
    return static_cast<float>(iteration % 1000) + static_cast<float>(micro_batch) * 0.125F +
           static_cast<float>(hops);
  }
  static void check(float value, float wanted, const char* what) {
    if (value != wanted) fail(std::string("another ") + what + " than was sent");
  }

  void forward(long iteration, int micro_batch) {
    Message activation(kWidth, expected(iteration, micro_batch, 0));
    if (wires_.previous >= 0) activation = receive(wires_.previous);
    check(activation[7], expected(iteration, micro_batch, stage_), "activation");
    compute(InstructionKind::kForward, micro_batch, iteration, 1);
    for (float& value : activation) value += 1;
    if (wires_.next >= 0) send_all(wires_.next, activation);
  }

  void backward(long iteration, int micro_batch) {
    Message gradient(kWidth, expected(iteration, micro_batch, 0));
    if (wires_.next >= 0) gradient = receive(wires_.next);
    check(gradient[9], expected(iteration, micro_batch, options_.stages - 1 - stage_), "gradient");
    compute(InstructionKind::kBackward, micro_batch, iteration, kBackwardShare);
    for (float& value : gradient) value += 1;
    if (wires_.previous >= 0) send_all(wires_.previous, gradient);
  }

  /// All pipelines end the iteration together, with the sum of their gradients.
  void reduce_gradients() {
    Message sum(kWidth, static_cast<float>(pipeline_ + 1));
    if (wires_.root >= 0) {
      send_all(wires_.root, sum);
      sum = receive(wires_.root);
    } else {
      for (const int other : wires_.others) {
        const Message theirs = receive(other);
        for (std::size_t i = 0; i < kWidth; ++i) sum[i] += theirs[i];
      }
      for (const int other : wires_.others) send_all(other, sum);
    }
    const int wanted = options_.data * (options_.data + 1) / 2;
    check(sum[11], static_cast<float>(wanted), "sum of gradients");
  }

  void log(long iteration) {
    const auto energy = counter_->total_energy();
    const harpe::SimulatedTruth truth = simulation_->truth(gpu_);
    const harpe::RankClient::Counts counts =
        harpe_ ? harpe_->counts() : harpe::RankClient::Counts();
    log_ << pipeline_ << ',' << stage_ << ',' << iteration << ','
         << std::to_string(static_cast<double>(truth.time.ns) * 1e-9) << ','
         << (energy.ok() ? std::to_string(energy->value) : "") << ','
         << std::to_string(truth.energy.value) << ',' << counts.version << ','
         << counts.clock_changes << ',' << counts.asked_ahead << ',' << slowness(iteration) << '\n';
  }

  const Options& options_;
  int pipeline_, stage_, gpu_;
  Wires wires_;
  Shared& shared_;
  harpe::Schedule schedule_;
  std::shared_ptr<harpe::Simulation> simulation_;
  std::unique_ptr<harpe::Gpu> counter_, measured_;
  std::unique_ptr<harpe::RankClient> harpe_;
  std::vector<harpe::TimeSpan> device_times_;
  std::ostringstream log_;
};

/// Connects two ranks.
void connect(int& one, int& other) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("no more sockets");
  one = ends[0];
  other = ends[1];
}

void close_all(const std::vector<Wires>& wires, std::size_t but) {
  for (std::size_t i = 0; i < wires.size(); ++i) {
    if (i == but) continue;
    for (const int socket : {wires[i].previous, wires[i].next, wires[i].root}) {
      if (socket >= 0) ::close(socket);
    }
    for (const int socket : wires[i].others) ::close(socket);
  }
}

std::vector<Wires> make_wires(const Options& options) {
  std::vector<Wires> wires(static_cast<std::size_t>(options.data) *
                           static_cast<std::size_t>(options.stages));
  const auto at = [&](int pipeline, int stage) -> Wires& {
    const int number = pipeline * options.stages + stage;
    return wires[static_cast<std::size_t>(number)];
  };
  for (int pipeline = 0; pipeline < options.data; ++pipeline) {
    for (int stage = 0; stage < options.stages; ++stage) {
      if (stage + 1 < options.stages) {
        connect(at(pipeline, stage).next, at(pipeline, stage + 1).previous);
      }
      if (pipeline > 0) {
        at(0, stage).others.push_back(-1);
        connect(at(0, stage).others.back(), at(pipeline, stage).root);
      }
    }
  }
  return wires;
}

/// Follows the control file until all ranks have ended. Returns true if they all succeeded.
bool wait_for(std::vector<pid_t> ranks, const Options& options, Shared& shared) {
  bool good = true;
  while (!ranks.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      std::erase(ranks, ended);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        if (good) std::fprintf(stderr, "trainer: a rank has failed; the others end with it\n");
        good = false;
      }
      continue;
    }
    std::ifstream control(options.control);
    std::string word;
    while (control >> word) {
      if (word == "stop") {
        // Two iterations later, which no rank has begun yet.
        long none = options.iterations;
        shared.stop_at.compare_exchange_strong(none, shared.newest.load() + 3);
      } else if (word == "slow") {
        int pipeline = -1;
        double factor = 1;
        if (control >> pipeline >> factor && pipeline >= 0 && pipeline < options.data) {
          shared.factor[pipeline] = std::max(1.0, factor);
        }
      }
    }
    ::usleep(50'000);
  }
  return good;
}

Options read_options(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  if (argc % 2 == 0) fail(std::string(argv[argc - 1]) + " needs a value");
  Options options;
  const auto text = [&](const char* name, std::string& into) {
    if (auto found = given.extract(name)) into = found.mapped();
  };
  const auto number = [&](const char* name, auto& into) {
    std::string value;
    text(name, value);
    if (!value.empty()) {
      into = static_cast<std::remove_reference_t<decltype(into)>>(std::atof(value.c_str()));
    }
  };
  text("--simulation", options.simulation);
  text("--server", options.server);
  text("--agent", options.agent);
  text("--job", options.job);
  text("--control", options.control);
  text("--log", options.log);
  number("--data", options.data);
  number("--stages", options.stages);
  number("--micro-batches", options.micro_batches);
  number("--iterations", options.iterations);
  number("--forward-s", options.forward_s);
  std::string imbalance, slow;
  text("--imbalance", imbalance);
  text("--slow", slow);
  if (!slow.empty() &&
      std::sscanf(slow.c_str(), "%d:%lf:%ld:%ld", &options.slow_pipeline, &options.slow_factor,
                  &options.slow_from, &options.slow_to) != 4) {
    fail("--slow is PIPELINE:FACTOR:FROM:TO");
  }
  std::stringstream parts(imbalance);
  for (std::string part; std::getline(parts, part, ',');) {
    options.imbalance.push_back(std::atof(part.c_str()));
  }
  if (options.imbalance.empty()) {
    const double steps[] = {1.0, 1.1, 0.9, 1.2};
    for (int i = 0; i < options.stages; ++i) options.imbalance.push_back(steps[i % 4]);
  }
  if (!given.empty()) fail("what is " + given.begin()->first + "?");
  if (options.simulation.empty()) fail("which GPUs? --simulation FILE");
  if (options.data < 1 || options.data > 64 || options.stages < 1 || options.micro_batches < 1 ||
      options.iterations < 1 || !(options.forward_s > 0) ||
      static_cast<int>(options.imbalance.size()) != options.stages) {
    fail("sizes are from 1 on, and --imbalance has one number a stage");
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory");
  auto& shared = *new (memory) Shared{};
  shared.stop_at = options.iterations;
  for (auto& factor : shared.factor) factor = 1;
  const std::vector<Wires> wires = make_wires(options);
  std::vector<pid_t> ranks;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    const pid_t child = ::fork();
    if (child < 0) fail("no more processes");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no process is left behind
      close_all(wires, i);
      const int number = static_cast<int>(i);
      Rank rank(options, number / options.stages, number % options.stages, wires[i], shared);
      rank.train();
      return 0;
    }
    ranks.push_back(child);
  }
  close_all(wires, wires.size());
  const std::size_t count = ranks.size();
  if (!wait_for(std::move(ranks), options, shared)) return 1;
  if (options.log.empty()) return 0;
  std::ofstream log(options.log);
  log << "pipeline,stage,iteration,begin_s,counter_j,true_j,version,clock_changes,asked_ahead,"
         "slow\n";
  for (std::size_t i = 0; i < count; ++i) {
    const std::string part = options.log + "." + std::to_string(i);
    log << std::ifstream(part).rdbuf();
    std::remove(part.c_str());
  }
  return 0;
}
