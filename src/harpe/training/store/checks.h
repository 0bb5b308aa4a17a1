#pragma once
/// \file
/// Checks of input before a database is used: both databases accept the same texts.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Limit on a notification, in bytes: PostgreSQL accepts less than 8000.
constexpr std::size_t kLongestNotification = 7000;

/// Returns true for UTF-8 (RFC 3629) without a zero byte.
bool is_storable(std::string_view text);

Status check_job_id(std::string_view id);
Status check_notification(std::string_view text);
Status check_changes(const StoreChanges& changes);
Status check_retention(const Retention& keep);
/// Returns the error of a database that has a job more than once; the transaction must be
/// discarded.
Error damaged_job(const std::string& id);
/// Checks the id of a job, or "" for the server itself.
Status check_subject(std::string_view job);

}  // namespace harpe::training
