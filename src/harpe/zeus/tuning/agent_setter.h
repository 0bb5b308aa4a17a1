#pragma once
/// \file
/// Settings through the node's agent, under a lease: graphics clocks where the policy allows them
/// (a locked clock beats a power limit at the same speed), power limits otherwise. The lease ends
/// with this process, however it ends, and all is then as it was found.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/zeus/tuning/knob_setter.h"

namespace harpe {

/// Takes the lease; nothing is set yet. Fails, with why, where there is no agent, it does not know
/// one of the GPUs, another client holds them, or neither clocks nor limits may be lowered on all.
/// \param uuids  of the job's GPUs
/// \param name      of the lease, for people
/// \param patience  with the agent, a request
Result<std::unique_ptr<KnobSetter>> open_agent_setter(const std::filesystem::path& socket,
                                                      std::span<const std::string> uuids,
                                                      const std::string& name, Seconds patience,
                                                      Clock& clock);

}  // namespace harpe
