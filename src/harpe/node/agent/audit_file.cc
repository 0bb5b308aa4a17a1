#include "harpe/node/agent/audit_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe {
namespace {

class AuditFile final : public AuditSink {
 public:
  explicit AuditFile(std::filesystem::path path) : path_(std::move(path)) {}
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;
  ~AuditFile() override { give_back(); }

  Status append(std::string_view line) override {
    if (!file_) {
      HARPE_TRY(reopen());
    }
    const std::string text = (torn_ ? "\n" : "") + std::string(line);
    const off_t before = size();
    take_space(before);
    ssize_t written = 0;
    do {
      written = ::write(file_.get(), text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<ssize_t>(text.size())) {
      torn_ = false;
      return ok_status();
    }
    const int why = written < 0 ? errno : ENOSPC;
    if (written > 0) {
      torn_ = torn_ || ::ftruncate(file_.get(), before) != 0;
      taken_until_ = 0;  // the end of the file gave back what was beyond it
    }
    return failure("cannot write", why);
  }

  bool has_room() override {
    if (!file_ && !reopen().ok()) return false;
    take_space(size());
    return has_room_;
  }

  Status reopen() override {
    // Readable, so that a line that a killed agent left half written is seen.
    auto opened = HARPE_TRY(open_trusted(path_, O_RDWR | O_APPEND | O_CREAT, 0640));
    give_back();
    file_ = std::move(opened);
    taken_until_ = 0;
    const off_t end = size();
    char last = '\n';
    torn_ = end > 0 && ::pread(file_.get(), &last, 1, end - 1) == 1 && last != '\n';
    take_space(end);
    return ok_status();
  }

 private:
  Error failure(const char* what, int error) const {
    return {ErrorCode::kUnavailable,
            {{.file = path_.string(),
              .message = std::string(what) + ": " + std::generic_category().message(error)}}};
  }

  off_t size() const {
    struct stat status{};
    return ::fstat(file_.get(), &status) == 0 ? status.st_size : 0;
  }

  /// Keeps the reserve beyond the end, which a rotation that truncates moves, too.
  void take_space(off_t end) {
    constexpr auto kReserve = static_cast<off_t>(kAuditReserve);
    const bool truncated = end < std::exchange(last_end_, end);
    if (has_room_ && end + kReserve / 2 <= taken_until_ && !truncated) return;
    has_room_ = ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, end, kReserve) == 0;
    if (has_room_) taken_until_ = end + kReserve;
    if (!has_room_ && errno == EOPNOTSUPP) has_room_ = true;
  }

  /// A file that goes on without this agent keeps no space.
  void give_back() {
    if (file_) [[maybe_unused]]
      const int ignored = ::ftruncate(file_.get(), size());
  }

  const std::filesystem::path path_;
  UniqueFd file_;
  off_t taken_until_ = 0, last_end_ = 0;
  bool has_room_ = false;
  bool torn_ = false;  ///< the last line was written in part
};

}  // namespace

Result<std::unique_ptr<AuditSink>> open_audit_file(const std::filesystem::path& path) {
  auto file = std::make_unique<AuditFile>(path);
  const Status opened = file->reopen();
  if (!opened.ok() && opened.error().code != ErrorCode::kUnavailable) return opened.error();
  return std::unique_ptr<AuditSink>(std::move(file));
}

}  // namespace harpe
