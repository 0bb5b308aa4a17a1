#pragma once
/// \file
/// A store in a PostgreSQL database, for any number of servers.

#include <memory>
#include <span>

#include "harpe/training/store/migrations.h"
#include "harpe/training/store/store.h"
#include "harpe/training/store/store_url.h"

namespace harpe {

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url, const StoreOptions& options,
                                                   std::span<const Migration> steps = migrations());

}  // namespace harpe
