#pragma once
/// \file
/// A store in one SQLite file, for one server. Write-ahead log, `synchronous = FULL`: a commit is
/// on the disk before it is acknowledged, which costs one flush; batches of changes share it.

#include <memory>
#include <span>
#include <string>

#include "harpe/training/store/migrations.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                 const StoreOptions& options,
                                                 std::span<const Migration> steps = migrations());

}  // namespace harpe::training
