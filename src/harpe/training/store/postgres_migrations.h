#pragma once
/// \file
/// Brings PostgreSQL's tables up to date, in one transaction; several servers that start at once
/// take turns.

#include <span>

#include "harpe/training/store/migrations.h"
#include "harpe/training/store/postgres_session.h"

namespace harpe {

Status migrate(PostgresSession& session, std::span<const Migration> steps);

}  // namespace harpe
