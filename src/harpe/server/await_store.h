#pragma once
/// \file
/// The store of a server that starts, which may be a database that is not there yet.

#include <memory>
#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/service/server_log.h"
#include "harpe/store/store.h"

namespace harpe {

/// Opens the store. Where its PostgreSQL cannot be reached (it starts later, is restarted, or the
/// network is), waits until it can, tries again every second, and says so in the log: a server that
/// gave up would have to be started by hand.
/// \returns  the store; nullopt if SIGTERM or SIGINT ended the wait. Fails where waiting does not
///           help: a wrong password, a database of a later Harpe.
Result<std::optional<std::unique_ptr<Store>>> await_store(const std::string& url,
                                                          const StoreOptions& options,
                                                          ServerLog& log);

}  // namespace harpe
