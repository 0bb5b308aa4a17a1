#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/base/random_id.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/net/http_client/token_file.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/clock_readings.h"
#include "harpe/training/client/instruction_cursor.h"
#include "harpe/training/client/pacer.h"
#include "harpe/training/client/pause_board.h"
#include "harpe/training/client/rank_client_options.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/client/reporter.h"
#include "harpe/training/client/stream_follower.h"
#include "harpe/training/client/wanted_clock.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

/// The position of training: its iteration, assignment and instruction. Training that runs ahead of
/// its device has two: the position of its calls, and that of the device. Not thread-safe;
/// allocates nothing and never waits.
class AssignmentCursor {
 public:
  /// \param reader  index of this reader of `assignments`, which must outlive this
  AssignmentCursor(InstructionCursor instructions, PublishedAssignments& assignments,
                   std::size_t reader)
      : instructions_(std::move(instructions)), assignments_(&assignments), reader_(reader) {}

  /// Starts in the iteration of another cursor.
  AssignmentCursor(const AssignmentCursor& other, std::size_t reader)
      : AssignmentCursor(other.instructions_, *other.assignments_, reader) {
    iteration_ = other.iteration_;
  }

  /// \param runs  returns true if training can run by an assignment; other assignments are ignored
  template <class Runs>
  void begin_iteration(std::int64_t iteration, const Runs& runs) noexcept {
    iteration_ = iteration;
    instructions_.restart();
    label_ = {};
    const AssignmentBook* book = assignments_->acquire(reader_);
    const auto run = [&](const RankAssignment* one) {
      return one != nullptr && runs(*one) ? one : nullptr;
    };
    known_ = book == nullptr ? nullptr : book->in_force(iteration);
    in_force_ = run(known_);
    following_ = run(book == nullptr ? nullptr : book->in_force(iteration + 1));
  }
  /// Runs this iteration by no assignment.
  void leave() noexcept { in_force_ = nullptr; }
  /// Returns true if the next instruction begins the next iteration.
  bool at_end() const noexcept { return iteration_ < 0 || instructions_.next() < 0; }
  /// Moves to an instruction.
  InstructionCursor::Taken take(InstructionKind kind, int chunk, int micro_batch) noexcept {
    const InstructionCursor::Taken taken = instructions_.take(kind, chunk, micro_batch);
    const bool has_label = in_force_ != nullptr && in_force_->has_labels && taken.position >= 0;
    label_ = has_label ? in_force_->knobs[static_cast<std::size_t>(taken.position)].label : Label{};
    return taken;
  }

  std::int64_t iteration() const noexcept { return iteration_; }
  /// Returns the assignment that holds in this iteration; null if none does.
  const RankAssignment* known() const noexcept { return known_; }
  /// Returns the assignment by which training runs in it; null if none.
  const RankAssignment* in_force() const noexcept { return in_force_; }
  std::uint64_t version() const noexcept { return in_force_ == nullptr ? 0 : in_force_->version; }
  /// Returns the label of the newest instruction.
  const Label& label() const noexcept { return label_; }

  /// Returns the clock of an entry of the list; `none` if no assignment is in force.
  Megahertz clock_at(int position, Megahertz none) const noexcept {
    return in_force_ == nullptr ? none : clock_of(*in_force_, position);
  }
  Megahertz first_clock(Megahertz none) const noexcept {
    return clock_at(instructions_.first(), none);
  }
  /// Returns the clock of the instruction after this one, or of the first of the next iteration.
  Megahertz next_clock(Megahertz none) const noexcept {
    if (instructions_.next() >= 0) return clock_at(instructions_.next(), none);
    return following_ == nullptr ? none : clock_of(*following_, instructions_.first());
  }

 private:
  static Megahertz clock_of(const RankAssignment& assignment, int position) noexcept {
    const Megahertz clock = assignment.clocks[static_cast<std::size_t>(position)];
    return clock.value == 0 ? WantedClock::kAsItIs : clock;
  }

  InstructionCursor instructions_;
  PublishedAssignments* assignments_;
  std::size_t reader_;
  std::int64_t iteration_ = -1;
  const RankAssignment* known_ = nullptr;  ///< owned by `assignments_`, as the next two
  const RankAssignment* in_force_ = nullptr;
  const RankAssignment* following_ = nullptr;  ///< in the next iteration; null if not known
  Label label_;
};

}  // namespace
}  // namespace harpe::training

namespace harpe {
namespace {

constexpr std::size_t kTrainingReader = 0;  // index in the clock link and the assignments
constexpr std::size_t kCallReader = 1;      // index in the assignments, if a stream is followed
constexpr Megahertz kFree{0};               // removes the lock
constexpr Seconds kClockInterval{0.05};     // between readings of the clock
constexpr const char* kNoLabels =
    "the plan has labels, such as kernel schedules, but training does not read them "
    "(RankClient::label): it runs at all-max";
/// Longest wait of reports for times of a stream, such as while a device loads its first kernels.
constexpr Seconds kLongestWait{60};

void write_to_standard_error(const std::string& text) {
  std::fprintf(stderr, "harpe: %s\n", text.c_str());
}

/// Returns the log of this rank. If the job has several ranks, each line names its rank, because
/// launchers write the standard error of all ranks to one file.
std::function<void(const std::string&)> log_of_rank(const RankClientOptions& options) {
  const JobShape& shape = options.spec.shape;
  if (shape.ranks() == 1) return options.log;
  return [log = options.log, rank = std::to_string(shape.index(*options.coordinates))](
             const std::string& text) { log("rank " + rank + ": " + text); };
}

/// Returns true if the launcher numbers this rank 0 on its node, or does not number ranks. Only
/// that rank logs messages about the whole node.
bool is_first_of_node() {
  const char* local = std::getenv("LOCAL_RANK");
  return local == nullptr || std::string_view(local).empty() || std::string_view(local) == "0";
}

plan::AskingAhead asking_of(const RankClientOptions& options) {
  return options.look_ahead ? plan::AskingAhead::by(*options.look_ahead)
                            : plan::AskingAhead(options.spec.switch_latency);
}

/// Returns true if the client requests clocks ahead by the latency of the job, as plans assume.
bool plans_count_on(const RankClientOptions& options) {
  return !options.look_ahead && options.spec.switch_latency.longest() > Seconds{0};
}

/// The GPU of this rank and its monitor. If no GPU can be read, all members but `index` are empty.
struct MeasuredGpu {
  std::optional<int> index;  ///< in PCI order, as the agent counts
  std::string name;
  bool simulated = false;
  std::vector<Megahertz> clocks;  ///< supported graphics clocks
  Watts power_limit{};            ///< 0 if not known
  Devices devices;                ///< must outlive the monitor, like `clock_readings`
  std::unique_ptr<training::ClockReadings> clock_readings;
  std::unique_ptr<EnergyMonitor> monitor;
};

/// Returns the position of this rank's GPU among the devices: the GPU that the options name, else
/// the only GPU that this process may use (CUDA_VISIBLE_DEVICES and the like), else the
/// LOCAL_RANK-th of these. Logs a line and returns nullopt if that is not known.
std::optional<std::size_t> choose_gpu(const RankClientOptions& options, const Devices& devices) {
  const auto& gpus = devices.gpus;
  if (options.gpu) return static_cast<std::size_t>(*options.gpu);
  std::vector<GpuIdentity> identities;
  identities.reserve(gpus.size());
  for (const auto& gpu : gpus) identities.push_back(gpu->identity());
  const auto visible =
      device::visible_gpus(identities, device::VisibilityVariables::of_environment());
  if (!visible.ok()) {
    options.log(visible.error().text() + "; this rank's energy is not measured");
    return std::nullopt;
  }
  const char* local = std::getenv("LOCAL_RANK");
  const auto rank = local == nullptr ? std::nullopt : parse_integer(local);
  // Launchers that show each rank only its own GPU still number the ranks.
  const auto count = static_cast<std::int64_t>(visible->gpus.size());
  const std::int64_t position = count == 1 ? 0 : rank.value_or(-1);
  if (position < 0 || position >= count) {
    options.log(count == 0
                    ? "no GPU is visible here: energy is not measured and no clock is set"
                    : "which of " + std::to_string(count) + " GPUs is this rank's is not known: " +
                          (local != nullptr ? "LOCAL_RANK is " + std::string(local)
                                            : "give HARPE_GPU or LOCAL_RANK") +
                          "; energy is not measured and no clock is set");
    return std::nullopt;
  }
  return static_cast<std::size_t>(visible->gpus[static_cast<std::size_t>(position)]);
}

/// Finds the GPU of this rank and starts its monitor. Fails only if the options name a GPU that
/// this node does not have.
Result<MeasuredGpu> find_gpu(const RankClientOptions& options) {
  MeasuredGpu found;
  found.index = options.gpu;
  Gpu* gpu = options.measured;
  if (gpu == nullptr) {
    auto devices = HARPE_TRY(open_devices(DeviceOptions::of_environment()));
    found.devices = std::move(devices);
    const auto position = choose_gpu(options, found.devices);
    if (!position) return found;
    if (*position >= found.devices.gpus.size()) {
      if (found.devices.gpus.empty()) {
        options.log("no GPU can be read here: energy is not measured");
        return found;
      }
      return Error::invalid("this node has GPUs 0 to " +
                            std::to_string(found.devices.gpus.size() - 1) + ", and no GPU " +
                            std::to_string(*position));
    }
    gpu = found.devices.gpus[*position].get();
  }
  if (!found.index) found.index = gpu->identity().index;
  found.name = gpu->identity().name;
  found.simulated = gpu->identity().backend == "sim";
  if (auto clocks = gpu->supported_clocks(ClockDomain::kGraphics); clocks.ok()) {
    found.clocks = *std::move(clocks);
  }
  if (const auto limit = gpu->power_limit(); limit.ok()) found.power_limit = *limit;
  const std::array<Gpu*, 1> one{gpu};
  found.clock_readings = std::make_unique<training::ClockReadings>(system_clock());
  // An observing rank has no assignments: only readings show its clock.
  found.clock_readings->enable(options.spec.observe);
  const auto look = [readings = found.clock_readings.get()](std::size_t, Gpu& at) {
    readings->look(at);
  };
  found.monitor = HARPE_TRY(EnergyMonitor::start(
      one, {}, {.reasons_interval = Seconds{0.1}, .look = look, .look_interval = kClockInterval},
      system_clock()));
  return found;
}

/// The label of the running instruction for training to read. Only `was_read` is thread-safe.
class ShownLabel {
 public:
  void show(const Label& label) noexcept {
    const std::string_view text = label.text();
    std::ranges::copy(text, text_.begin());
    text_[text.size()] = 0;
  }
  const char* read() noexcept {
    was_read_.store(true, std::memory_order_relaxed);
    return text_.data();
  }
  /// Returns true if training has ever read a label, so that it follows labels.
  bool was_read() const noexcept { return was_read_.load(std::memory_order_relaxed); }

 private:
  std::array<char, Label::kMostBytes + 1> text_{};
  std::atomic<bool> was_read_ = false;
};

/// A client without a server, which does nothing.
class IdleClient final : public RankClient {
 public:
  void on_instruction_begin(InstructionKind, int, int) noexcept override {}
  void on_instruction_end() noexcept override {}
  Status follow_stream(void*) noexcept override { return ok_status(); }
  void on_iteration_begin(std::int64_t) noexcept override {}
  void on_iteration_end(std::span<const TimeSpan>) noexcept override {}
  void await_device_times(Seconds) noexcept override {}
  void on_device_times(std::int64_t, std::span<const TimeSpan>) noexcept override {}
  std::optional<Pause> pause_requested(std::int64_t) noexcept override { return std::nullopt; }
  bool wait_for_resume(Seconds) noexcept override { return true; }
  Counts counts() const noexcept override { return {}; }
  const char* label() noexcept override { return ""; }
  bool registered() const noexcept override { return false; }
};

class ActiveClient final : public RankClient {
 public:
  ActiveClient(const RankClientOptions& options, training::InstructionCursor cursor,
               MeasuredGpu gpu, std::unique_ptr<net::HttpLink> link)
      : log_(options.log),
        instructions_in_list_(cursor.instructions()),
        at_(std::move(cursor), assignments_, kTrainingReader),
        gpu_(std::move(gpu)) {
    Clock& clock = system_clock();
    if (!options.clock_socket->empty() && gpu_.index) {
      clocks_ = std::make_unique<training::ClockLink>(
          training::ClockLinkOptions{.socket = *options.clock_socket,
                                     .gpu = *gpu_.index,
                                     .lease = options.lease,
                                     .name = options.job,
                                     .logs_for_node = is_first_of_node()},
          wanted_, clock, log_);
    }
    training::ServerSessionOptions session{.job = options.job,
                                           .spec = training::job_spec_json(options.spec),
                                           .registration = {.coordinates = *options.coordinates,
                                                            .session = random_id(),
                                                            .run = options.run,
                                                            .gpu = gpu_.name,
                                                            .clocks = gpu_.clocks,
                                                            .simulated = gpu_.simulated,
                                                            .power_limit = gpu_.power_limit,
                                                            .take_over = options.take_over,
                                                            .asks_ahead = plans_count_on(options)},
                                           .patience = options.patience};
    reporter_ = std::make_unique<training::Reporter>(
        training::Reporter::Parts{
            .link = std::move(link),
            .clocks = clocks_.get(),
            .monitor = gpu_.monitor.get(),
            .readings = gpu_.clock_readings.get(),
            .highest = gpu_.clocks.empty() ? Megahertz{} : std::ranges::max(gpu_.clocks),
            .assignments = assignments_,
            .pauses = pauses_,
            .clock = clock,
            .log = log_},
        std::move(session), instructions_in_list_);
    pacer_ = std::make_unique<training::Pacer>(
        training::Pacer::Parts{
            .ring = ring_, .wanted = wanted_, .clocks = clocks_.get(), .clock = clock},
        training::Pacer::Options{.instructions = instructions_in_list_,
                                 .asking = asking_of(options)},
        [this](training::IterationRecord record) { reporter_->ended(std::move(record)); });
  }

  ~ActiveClient() override {
    follower_.reset();
    pacer_->stop();
    reporter_->stop();
  }
  ActiveClient(const ActiveClient&) = delete;
  ActiveClient& operator=(const ActiveClient&) = delete;

  void on_instruction_begin(InstructionKind kind, int chunk, int micro_batch) noexcept override {
    if (!follower_) {
      begin_instruction(kind, chunk, micro_batch);
      return label_.show(at_.label());
    }
    if (called_->at_end()) begin_called(called_->iteration() + 1);
    (void)called_->take(kind, chunk, micro_batch);
    label_.show(called_->label());
    tell({.kind = Kind::kInstructionBegin,
          .instruction = kind,
          .chunk = chunk,
          .micro_batch = micro_batch,
          .labelled = labelled(*called_)});
  }
  void on_instruction_end() noexcept override {
    if (follower_) return tell({.kind = Kind::kInstructionEnd});
    end_instruction();
  }
  void on_iteration_begin(std::int64_t iteration) noexcept override {
    if (!follower_) return begin_iteration(iteration);
    begin_called(iteration);
    tell({.kind = Kind::kIterationBegin, .iteration = iteration, .labelled = labelled(*called_)});
  }
  void on_iteration_end(std::span<const TimeSpan> device_times) noexcept override {
    if (follower_) return tell({.kind = Kind::kIterationEnd});
    if (!device_times.empty()) on_device_times(at_.iteration(), device_times);
    end_iteration();
  }

  Status follow_stream(void* stream) noexcept override {
    if (!follower_) {
      auto follower = training::StreamFollower::start(
          {.reached = [this](const training::StreamCall& call) { return take(call); },
           .times = [this](std::int64_t iteration,
                           std::span<const TimeSpan> times) { on_device_times(iteration, times); },
           .log = log_},
          system_clock());
      if (!follower.ok()) return std::move(follower).error();
      await_device_times(kLongestWait);
      called_.emplace(at_, kCallReader);
      follower_ = *std::move(follower);
    }
    stream_ = stream;
    return ok_status();
  }

  void await_device_times(Seconds most) noexcept override { reporter_->await_device_times(most); }

  void on_device_times(std::int64_t iteration, std::span<const TimeSpan> times) noexcept override {
    try {
      reporter_->device_times(iteration, {times.begin(), times.end()});
    } catch (const std::bad_alloc&) {
      counted_.lost.fetch_add(1, std::memory_order_relaxed);
    }
  }

  std::optional<Pause> pause_requested(std::int64_t iteration) noexcept override {
    const std::int64_t next = 1 + (called_ ? called_->iteration() : at_.iteration());
    try {
      auto asked = pauses_.before(iteration < 0 ? next : iteration);
      if (!asked) return std::nullopt;
      follower_ ? tell({.kind = Kind::kPause}) : pause();
      return Pause{.until = asked->until, .why = std::move(asked->why)};
    } catch (const std::bad_alloc&) {
      return std::nullopt;
    }
  }

  bool wait_for_resume(Seconds most) noexcept override { return pauses_.wait(most); }

  Counts counts() const noexcept override {
    return {.iterations = counted_.iterations.load(std::memory_order_relaxed),
            .instructions = counted_.instructions.load(std::memory_order_relaxed),
            .clock_changes =
                counted_.clock_changes.load(std::memory_order_relaxed) + pacer_->asked_ahead(),
            .asked_ahead = pacer_->asked_ahead(),
            .unexpected = counted_.unexpected.load(std::memory_order_relaxed),
            .unknown = counted_.unknown.load(std::memory_order_relaxed),
            .reports_sent = reporter_->reports_sent(),
            .reports_dropped = reporter_->reports_dropped(),
            .events_lost = ring_.lost() + counted_.lost.load(std::memory_order_relaxed),
            .version = counted_.version.load(std::memory_order_relaxed)};
  }
  const char* label() noexcept override { return label_.read(); }
  bool registered() const noexcept override { return reporter_->registered(); }

 private:
  using Kind = training::RankEvent::Kind;

  void tell(const training::StreamCall& call) noexcept {
    if (!follower_->tell(stream_, call)) counted_.lost.fetch_add(1, std::memory_order_relaxed);
  }

  // The position of calls in a followed stream. Their assignment is chosen here, for its labels.

  void begin_called(std::int64_t iteration) noexcept {
    called_->begin_iteration(iteration,
                             [this](const training::RankAssignment& one) { return runs(one); });
  }
  /// Returns the version of the assignment whose labels training follows; 0 if none.
  static std::uint64_t labelled(const training::AssignmentCursor& cursor) noexcept {
    const training::RankAssignment* one = cursor.in_force();
    return one != nullptr && one->has_labels ? one->version : 0;
  }

  // The effects of calls when the device reaches them: all on training's thread or the follower's.

  std::int64_t take(const training::StreamCall& call) noexcept {
    labelled_ = call.labelled;
    switch (call.kind) {
      case Kind::kIterationBegin:
        begin_iteration(call.iteration);
        break;
      case Kind::kIterationEnd:
        end_iteration();
        break;
      case Kind::kInstructionBegin:
        begin_instruction(call.instruction, call.chunk, call.micro_batch);
        break;
      case Kind::kInstructionEnd:
        end_instruction();
        break;
      case Kind::kPause:
        pause();
        break;
    }
    return at_.iteration();
  }

  void begin_instruction(InstructionKind kind, int chunk, int micro_batch) noexcept {
    if (at_.at_end()) begin_iteration(at_.iteration() + 1);
    const training::InstructionCursor::Taken taken = at_.take(kind, chunk, micro_batch);
    if (!taken.expected) note_unexpected(taken.position >= 0);
    // An instruction that the schedule lacks runs at all-max, not at the clock of another one.
    want(taken.position >= 0 ? at_.clock_at(taken.position, free_clock()) : free_clock());
    const Megahertz clock = wanted_.clock();
    Megahertz next = at_.next_clock(free_clock());
    if (next == training::WantedClock::kAsItIs) next = clock;
    count(counted_.instructions);
    ring_.push({.at = system_clock().now(),
                .number = taken.position,
                .clock = clock,
                .next_clock = next,
                .step = wanted_.steps(),
                .kind = Kind::kInstructionBegin,
                .instruction = kind,
                .chunk = static_cast<std::uint16_t>(chunk)});
  }

  void end_instruction() noexcept {
    ring_.push({.at = system_clock().now(), .kind = Kind::kInstructionEnd});
    // The GPU waits now, or its next instruction begins: either way its clock is wanted.
    want(at_.next_clock(free_clock()));
  }

  void end_iteration() noexcept {
    ring_.push({.at = system_clock().now(), .kind = Kind::kIterationEnd});
  }

  void pause() noexcept {
    ring_.push({.at = system_clock().now(), .kind = Kind::kPause});
    want(free_clock());
  }

  /// Increments a counter that has one writer.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void begin_iteration(std::int64_t iteration) noexcept {
    at_.begin_iteration(iteration,
                        [this](const training::RankAssignment& one) { return runs(one); });
    // If calls run ahead, the clocks must match the labels that training has read.
    if (called_ && labelled_ != labelled(at_)) at_.leave();
    follow_knobs(at_.known());
    const std::uint64_t version = at_.version();
    counted_.version.store(version, std::memory_order_relaxed);
    count(counted_.iterations);
    ring_.push({.at = system_clock().now(),
                .number = iteration,
                .version = version,
                .kind = Kind::kIterationBegin});
    want(at_.first_clock(free_clock()));
  }

  /// Returns true if neither the assignment nor missing labels prevent training from running by it.
  bool may_run(const training::RankAssignment& assignment) const noexcept {
    return assignment.refusal.empty() && (!assignment.has_labels || label_.was_read());
  }
  bool runs(const training::RankAssignment& assignment) const noexcept {
    const bool is_refused =
        !assignment.steady.empty() && (clocks_ == nullptr || clocks_->refuses(assignment.steady));
    return may_run(assignment) && !is_refused;
  }

  /// Sets the constant knobs of an assignment, and tries them again after a refusal. Missing labels
  /// are logged late, because training that has just begun may not have had the time to read one.
  void follow_knobs(const training::RankAssignment* known) noexcept {
    if (clocks_ != nullptr)
      clocks_->want(known != nullptr && may_run(*known) ? known->steady : Knobs{});
    const bool lacks_labels = known != nullptr && known->refusal.empty() && !may_run(*known);
    reporter_->refuse(lacks_labels ? kNoLabels : nullptr);
    if (lacks_labels && std::exchange(lacked_labels_, true) && !std::exchange(told_labels_, true))
      reporter_->say(kNoLabels);
  }

  /// Returns the clock without assignments: no lock, or `kAsItIs` if no clock was requested before.
  Megahertz free_clock() const noexcept {
    return wanted_.clock() == training::WantedClock::kAsItIs ? training::WantedClock::kAsItIs
                                                             : kFree;
  }

  void want(Megahertz clock) noexcept {
    const auto tell = [this](Megahertz told) {
      if (clocks_ != nullptr) clocks_->tell(kTrainingReader, told);
    };
    if (wanted_.step(clock, tell)) count(counted_.clock_changes);
  }

  void note_unexpected(bool is_known) noexcept {
    count(is_known ? counted_.unexpected : counted_.unknown);
    if (std::exchange(told_unexpected_, true)) return;
    reporter_->say(
        is_known
            ? "training runs instructions in an order that differs from its schedule; each gets "
              "the clock of its own entry, but the plan is optimal only for the schedule"
            : "training runs an instruction that its schedule lacks; the plan has no clock for it");
  }

  std::function<void(const std::string&)> log_;
  training::PublishedAssignments assignments_;
  training::PauseBoard pauses_{system_clock(), [] { return Seconds{seconds_since_1970()}; }};
  std::size_t instructions_in_list_;
  training::AssignmentCursor at_;  ///< used by training's thread, or the follower's
  MeasuredGpu gpu_;
  training::RankEventQueue ring_;
  training::WantedClock wanted_;
  std::unique_ptr<training::ClockLink> clocks_;

  // Used by training's thread, or the follower's.
  std::uint64_t labelled_ = 0;  ///< of the current call
  bool told_unexpected_ = false, lacked_labels_ = false, told_labels_ = false;
  /// Counters that any thread may read.
  struct Counted {
    std::atomic<std::uint64_t> iterations = 0, instructions = 0, clock_changes = 0;
    std::atomic<std::uint64_t> unexpected = 0, unknown = 0, lost = 0;  ///< calls and events
    std::atomic<std::uint64_t> version = 0;                            ///< of the assignment
  } counted_;

  std::unique_ptr<training::Reporter> reporter_;
  std::unique_ptr<training::Pacer> pacer_;  ///< uses all of the above
  void* stream_ = nullptr;                  ///< used by training's thread, as the members below
  std::optional<training::AssignmentCursor> called_;  ///< position of calls, ahead of the follower
  ShownLabel label_;
  std::unique_ptr<training::StreamFollower> follower_;  ///< last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<RankClient>> RankClient::start(RankClientOptions options) {
  const bool describes_job = !options.spec.schedule.lists.empty();
  options = HARPE_TRY(complete(std::move(options), process_environment()));
  if (!options.log) options.log = write_to_standard_error;
  if (const char* file = std::getenv("HARPE_JOB_FILE");
      describes_job && file != nullptr && *file != 0 && is_first_of_node()) {
    options.log("HARPE_JOB_FILE is not read: the program describes the job itself");
  }
  if (options.server.empty()) {
    if (is_first_of_node()) {
      options.log("no server is given (HARPE_SERVER): training runs without Harpe");
    }
    return std::unique_ptr<RankClient>(std::make_unique<IdleClient>());
  }
  auto cursor = HARPE_TRY(
      training::InstructionCursor::make(options.spec.schedule, options.coordinates->stage));
  auto link = HARPE_TRY(net::HttpLink::open({.server = options.server,
                                             .token = options.token,
                                             .token_file = options.token_file,
                                             .trusted_network = options.trusted_network,
                                             .ca_file = options.ca_file}));
  if (const Status read = net::TokenFile({}, options.token_file).read(); !read.ok()) {
    options.log(read.error().text() + "; it is looked for again");
  }
  options.log = log_of_rank(options);
  auto gpu = HARPE_TRY(find_gpu(options));
  try {
    return std::unique_ptr<RankClient>(std::make_unique<ActiveClient>(
        options, std::move(cursor), std::move(gpu), std::move(link)));
  } catch (const std::system_error& error) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string("no thread can be started: ") + error.what());
  }
}

}  // namespace harpe
