#include "harpe/training/store/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "harpe/base/text.h"

namespace harpe::training {
namespace {

constexpr std::size_t kLongestId = 255;

/// The number of bytes after the first byte of a character, and the range of the second byte; count
/// is -1 if no character begins with the byte. RFC 3629, section 4.
struct Following {
  int count = -1;
  unsigned char low = 0x80, high = 0xbf;
};

Following following(unsigned char first) {
  if (first != 0 && first < 0x80) return {0};
  if (first >= 0xc2 && first <= 0xdf) return {1};
  if (first == 0xe0) return {2, 0xa0, 0xbf};
  if (first == 0xed) return {2, 0x80, 0x9f};
  if (first >= 0xe1 && first <= 0xef) return {2};
  if (first == 0xf0) return {3, 0x90, 0xbf};
  if (first >= 0xf1 && first <= 0xf3) return {3};
  if (first == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

Status refused(const std::string& what) {
  return Error::invalid(what + " is not valid UTF-8, or contains a zero byte");
}

bool is_finite(std::initializer_list<double> numbers) {
  return std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); });
}

Status check_summary(const std::string& job, const JobSummary& summary) {
  HARPE_TRY(check_job_id(job));
  if (!is_storable(summary.text)) return refused("the summary of job " + job);
  if (!is_finite({summary.heard, summary.ended.value_or(0)})) {
    return Error::invalid("a time of job " + job + " is not a finite number");
  }
  return ok_status();
}

Status check_save(const JobSave& save) {
  const StoredJob& job = save.job;
  HARPE_TRY(check_job_id(job.id));
  if (!is_storable(job.state)) return refused("the state of job " + job.id);
  if (save.plans && !is_storable(*save.plans)) return refused("the plans of job " + job.id);
  for (const auto& [name, text] : save.parts) {
    if (!is_storable(name) || !is_storable(text)) return refused("a part of job " + job.id);
  }
  if (!is_finite({job.updated})) {
    return Error::invalid("the time of job " + job.id + " is not a finite number");
  }
  return save.summary ? check_summary(job.id, *save.summary) : ok_status();
}

Status check_event(const StoredEvent& event) {
  HARPE_TRY(check_subject(event.job));
  if (!is_storable(event.kind) || !is_storable(event.text)) {
    return refused("an event of " + (event.job.empty() ? "the server" : "job " + event.job));
  }
  if (!is_finite({event.at, event.stored_at.value_or(0)})) {
    return Error::invalid("the time of an event is not a finite number");
  }
  return ok_status();
}

Status check_clock(const ClockMark& mark) {
  if (!is_storable(mark.boot)) return refused("the machine's start");
  if (!is_finite({mark.seconds, mark.boot_time, mark.wall})) {
    return Error::invalid("a time of the store's clock is not a finite number");
  }
  return ok_status();
}

}  // namespace

Error damaged_job(const std::string& id) {
  return Error::of(ErrorCode::kIo, "the database is damaged: it has job " + id +
                                       " more than once; restore a backup");
}

bool is_storable(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Following expected = following(static_cast<unsigned char>(text[i++]));
    if (expected.count < 0 || text.size() - i < static_cast<std::size_t>(expected.count))
      return false;
    for (int k = 0; k < expected.count; ++k) {
      const auto byte = static_cast<unsigned char>(text[i++]);
      const unsigned char low = k == 0 ? expected.low : 0x80;
      const unsigned char high = k == 0 ? expected.high : 0xbf;
      if (byte < low || byte > high) return false;
    }
  }
  return true;
}

Status check_job_id(std::string_view id) {
  if (id.empty() || id.size() > kLongestId) {
    return Error::invalid("a job's id must have 1 to 255 bytes, not " + std::to_string(id.size()));
  }
  if (!is_storable(id)) return refused("the job's id " + in_quotes(id));
  return ok_status();
}

Status check_subject(std::string_view job) {
  return job.empty() ? ok_status() : check_job_id(job);
}

Status check_notification(std::string_view text) {
  if (!is_storable(text)) return refused("the notification " + in_quotes(text));
  if (text.size() > kLongestNotification) {
    return Error::invalid("a notification may have up to " + std::to_string(kLongestNotification) +
                          " bytes, not " + std::to_string(text.size()));
  }
  return ok_status();
}

Status check_changes(const StoreChanges& changes) {
  for (const JobSave& save : changes.jobs) {
    HARPE_TRY(check_save(save));
  }
  for (const JobSummary& summary : changes.summaries) {
    HARPE_TRY(check_summary(summary.job, summary));
  }
  for (const StoredEvent& event : changes.events) {
    HARPE_TRY(check_event(event));
  }
  for (const std::string& notification : changes.notifications) {
    HARPE_TRY(check_notification(notification));
  }
  return changes.clock ? check_clock(*changes.clock) : ok_status();
}

Status check_retention(const Retention& keep) {
  if (!is_finite({keep.since})) {
    return Error::invalid("the earliest time of events to keep is not a finite number");
  }
  if (keep.most_at_once < 0)
    return Error::invalid("the number of events to delete must not be negative");
  for (const std::string& job : keep.jobs.value_or(std::vector<std::string>())) {
    HARPE_TRY(check_subject(job));
  }
  return ok_status();
}

}  // namespace harpe::training
