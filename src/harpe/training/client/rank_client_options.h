#pragma once
/// \file
/// What a training rank says to its client, from the program or from the environment.
///
///   harpe::RankClientOptions options;
///   options.job = "gpt3";
///   options.spec.schedule = *harpe::one_f_one_b({.stages = 4, .micro_batches = 8});
///   options.spec.shape.stages = 4;
///   options.coordinates = harpe::RankCoordinates{.stage = 1};
///   auto client = harpe::RankClient::start(options);  // client.h

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"
#include "harpe/training/wire/job_shape.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe {

/// Everything may also stand in the environment (docs/client.md); what the program gives goes
/// first.
struct RankClientOptions {
  std::string server;  ///< "http://10.0.0.1:7787"; empty: the client does nothing
  std::string token;   ///< of the job
  /// Holds the token, which is read again whenever it changes or is refused; goes before `token`.
  std::filesystem::path token_file;
  std::filesystem::path ca_file;  ///< certificates to trust in place of the system's
  /// The token may travel unencrypted: the user has said that the network is trusted
  /// (HARPE_INSECURE=1).
  bool trusted_network = false;
  std::string job;  ///< id: [A-Za-z0-9._+-]{1,128}, the same on all ranks
  JobSpec spec;     ///< the same on all ranks
  /// True if this training is only measured, see `JobSpec::observe`. Unset: HARPE_OBSERVE decides,
  /// else `spec`. If true, the client sets no clock, whatever the server sends.
  std::optional<bool> observe;
  std::optional<RankCoordinates> coordinates;  ///< of this rank
  std::string run;  ///< this start of training, the same on all ranks; may be empty
  /// This start takes the job's places over without waiting until most of its ranks are there. On a
  /// server with tokens, one that is for this job alone may.
  bool take_over = false;

  std::optional<std::filesystem::path> clock_socket;  ///< the agent's; empty path: sets no clocks
  std::optional<int> gpu;  ///< index among this node's GPUs, in PCI order
  /// The GPU to measure, in place of opening the node's devices; must outlive the client, and is
  /// its alone.
  Gpu* measured = nullptr;

  Seconds lease{60};     ///< on the GPU's clock, renewed three times as often
  Seconds patience{30};  ///< without its server's word until the GPU is set free
  /// Shortest time from asking for a clock to its coming into force, the same for all clocks, by
  /// which it is asked for ahead of the instruction that needs it; 0: only asked for when the one
  /// before ends. Plans do not count on it. Unset: for each clock 0.7 of its least latency by the
  /// job's `switch_latency`, which plans count on (instruction/asking_ahead.h).
  std::optional<Seconds> look_ahead;
  /// Hears what a person should know, from a thread of the client's own; must not block. Unset:
  /// standard error, each line beginning with "harpe: ".
  std::function<void(const std::string&)> log;
};

/// Looks a variable up: null where it is not set.
using Environment = std::function<const char*(const char* name)>;
Environment process_environment();

/// Fills in from the environment what is not given, and checks all of it. Diagnostics name the
/// variable or the member, all at once.
Result<RankClientOptions> complete(RankClientOptions options, const Environment& environment);

/// Options as JSON, for languages that have no such struct: {"server", "token", "token_file",
/// "ca_file", "job", "spec": {as a job is registered}, "observe", "data", "stage", "tensor", "run",
/// "take_over", "clock_socket", "gpu", "lease_s", "patience_s", "look_ahead_s"}; all may be left
/// out. Diagnostics carry line and column.
Result<RankClientOptions> parse_rank_client_options(std::string_view text);

}  // namespace harpe
