// Replacement for PostgreSQL in builds without it (CMake's HARPE_POSTGRESQL), such as wheels.
#include "harpe/training/store/sql_store.h"

namespace harpe::training {

Result<std::map<std::string, std::string>> postgres_parameters(const std::string& /*url*/) {
  return Error::of(ErrorCode::kNotSupported,
                   "this build of Harpe, such as a wheel's, stores jobs only in SQLite "
                   "(sqlite:PATH); for PostgreSQL install Harpe's package or build it from source");
}

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& /*url*/,
                                                   const StoreOptions& /*options*/,
                                                   std::span<const Migration> /*steps*/) {
  return postgres_parameters({}).error();
}

}  // namespace harpe::training
