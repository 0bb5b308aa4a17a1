#pragma once
/// \file
/// A store in a PostgreSQL database, for any number of servers.

#include <map>
#include <memory>
#include <span>
#include <string>

#include "harpe/training/store/migrations.h"
#include "harpe/training/store/store.h"
#include "harpe/training/store/store_url.h"

namespace harpe::training {

/// Returns the parameters of libpq in a URL, by name, as libpq reads it. The URL has been checked
/// (`StoreUrl::parse`). Fails if this build of Harpe is without PostgreSQL.
Result<std::map<std::string, std::string>> postgres_parameters(const std::string& url);

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url, const StoreOptions& options,
                                                   std::span<const Migration> steps = migrations());

}  // namespace harpe::training
