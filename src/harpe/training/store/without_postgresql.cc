// In place of PostgreSQL where Harpe is built without it (CMake's HARPE_POSTGRESQL), as in wheels.
#include "harpe/training/store/postgres_store.h"

namespace harpe {

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url,
                                                   const StoreOptions& /*options*/,
                                                   std::span<const Migration> /*steps*/) {
  return Error::of(ErrorCode::kNotSupported,
                   url.text() +
                       ": this build of Harpe, such as a wheel's, keeps jobs in SQLite alone "
                       "(sqlite:PATH); for PostgreSQL install Harpe's package or build it from "
                       "source");
}

}  // namespace harpe
