#pragma once
/// \file
/// Opening the store of a server that starts, which may be a database that is not there yet.

#include <functional>
#include <memory>
#include <string>

#include "harpe/base/result.h"
#include "harpe/net/service/server_log.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// Opens the store. If it is a PostgreSQL that cannot be reached, tries again every second until it
/// can, and says so in the log: a server that gave up would have to be started by hand. A database
/// or role that does not exist is waited for, too. SIGTERM and SIGINT end the process at once, with
/// status 0. Must be called before signals are handled. Fails if waiting does not help: a wrong
/// password, a database of a later Harpe.
/// \param when_away  called once, after the first attempt that failed
Result<std::unique_ptr<Store>> await_store(const std::string& url, const StoreOptions& options,
                                           ServerLog& log, const std::function<void()>& when_away);

}  // namespace harpe
