#pragma once
/// \file
/// What both databases refuse before they are asked: texts that one of them could not give back.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// The longest notification, in bytes: PostgreSQL takes less than 8000.
constexpr std::size_t kLongestNotification = 7000;

/// UTF-8 (RFC 3629) without a zero byte.
bool is_storable(std::string_view text);

Status check_job_id(std::string_view id);
Status check_notification(std::string_view text);
Status check_changes(const StoreChanges& changes);
Status check_retention(const Retention& keep);
/// Of a database that has a job more than once: nothing of the transaction is kept.
Error damaged_job(const std::string& id);
/// A job, or "" for the server itself.
Status check_subject(std::string_view job);

}  // namespace harpe::training
