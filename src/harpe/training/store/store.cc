#include "harpe/training/store/store.h"

#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/store_url.h"

namespace harpe::training {

Result<std::unique_ptr<Store>> Store::open(const std::string& url, const StoreOptions& options) {
  const StoreUrl parsed = HARPE_TRY(StoreUrl::parse(url));
  if (parsed.kind == StoreUrl::Kind::kSqlite) return open_sqlite_store(parsed.path, options);
  return open_postgres_store(parsed, options);
}

}  // namespace harpe::training
