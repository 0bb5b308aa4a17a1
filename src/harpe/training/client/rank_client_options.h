#pragma once
/// \file
/// Options of a training rank's client, from the program or from the environment.
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

/// Most options can also be set by environment variables (docs/client.md); a value that the program
/// sets takes precedence.
struct RankClientOptions {
  std::string server;  ///< "http://10.0.0.1:7787"; empty: the client does nothing
  std::string token;   ///< of the job
  /// A file with the token, which takes precedence over `token`. The file is read again whenever it
  /// changes or the server refuses the token.
  std::filesystem::path token_file;
  std::filesystem::path ca_file;  ///< certificates to trust in place of the system's
  /// True if the token may be sent unencrypted, because the user trusts the network
  /// (HARPE_INSECURE=1).
  bool trusted_network = false;
  std::string job;  ///< id: [A-Za-z0-9._+-]{1,128}, the same on all ranks
  JobSpec spec;     ///< the same on all ranks
  /// True if this training is only measured, see `JobSpec::observe`. Unset: HARPE_OBSERVE decides,
  /// else `spec`. If true, the client sets no clock, whatever the server sends.
  std::optional<bool> observe;
  std::optional<RankCoordinates> coordinates;  ///< of this rank
  std::string run;  ///< this start of training, the same on all ranks; may be empty
  /// True if this start of training replaces a running one at once, before most of its own ranks
  /// have registered. On a server with tokens, only a token for this job alone allows that.
  bool take_over = false;

  std::optional<std::filesystem::path> clock_socket;  ///< the agent's; no clock is set if empty
  std::optional<int> gpu;  ///< index among this node's GPUs, in PCI order
  /// The GPU to measure; if null, the client opens the node's devices. It must outlive the client,
  /// and only the client may use it.
  Gpu* measured = nullptr;

  Seconds lease{60};     ///< on the GPU's clock; renewed after each third of it
  Seconds patience{30};  ///< time without a confirmation by the server until the clock is unlocked
  /// How long before the end of an instruction the clock of the next one is requested: the shortest
  /// time that a change takes, the same for all clocks. 0: requested only when the instruction
  /// ends. Plans do not rely on this value. Unset: for each clock 0.7 of its least latency by the
  /// job's `switch_latency`, on which plans rely (instruction/asking_ahead.h).
  std::optional<Seconds> look_ahead;
  /// Called with each message for the user, during `start` on the caller's thread and later on a
  /// thread of the client; must not block. Unset: writes to standard error, each line beginning
  /// with "harpe: ".
  std::function<void(const std::string&)> log;
};

/// Returns the value of a variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;
Environment process_environment();

/// Fills in missing options from the environment and checks all of them. If there is no server,
/// returns at once. An error has all diagnostics; each names the variable or the member.
Result<RankClientOptions> complete(RankClientOptions options, const Environment& environment);

/// Parses options from JSON, for languages without this struct: {"server", "token", "token_file",
/// "ca_file", "job", "spec": {as a job is registered}, "observe", "data", "stage", "tensor", "run",
/// "take_over", "clock_socket", "gpu", "lease_s", "patience_s", "look_ahead_s"}. Every member is
/// optional. Diagnostics have line and column.
Result<RankClientOptions> parse_rank_client_options(std::string_view text);

}  // namespace harpe
