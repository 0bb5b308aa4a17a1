#include "harpe/node/agent/state_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "harpe/node/agent/trusted_file.h"

namespace harpe {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLargest = 4 << 20;
constexpr std::size_t kBlock = 4096;

/// The first free name of a kind; the last of a hundred is overwritten.
fs::path aside(const fs::path& path) {
  constexpr int kMost = 100;
  fs::path name;
  std::error_code error;
  for (int i = 1; i <= kMost; ++i) {
    name = path;
    name += ".damaged-" + std::to_string(i);
    if (!fs::exists(fs::symlink_status(name, error))) break;
  }
  return name;
}

class FileStorage final : public StateStorage {
 public:
  FileStorage(fs::path path, std::size_t reserve)
      : path_(std::move(path)), spare_(path_.string() + ".spare"), reserve_(reserve) {}

  std::string name() const override { return path_.string(); }

  Result<std::optional<std::string>> load() override {
    struct stat status{};
    if (::lstat(path_.c_str(), &status) != 0 && errno == ENOENT) {
      return std::optional<std::string>();
    }
    auto text = HARPE_TRY(read_trusted(path_, kLargest));
    return std::optional(std::move(text));
  }

  Status replace(std::string_view text) override {
    struct stat status{};
    if (::lstat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      return Error::io(path_.string(), "is not a regular file");
    }
    std::string padded(text);
    padded.resize(std::max(reserve_, (text.size() + kBlock - 1) / kBlock * kBlock), '\n');
    HARPE_TRY(write_spare(padded));
    if (::renameat2(AT_FDCWD, spare_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      return ok_status();
    }
    // There is nothing to exchange with yet, or this file system cannot.
    if (::rename(spare_.c_str(), path_.c_str()) != 0) return failure(path_, "cannot write");
    // The next text needs space too; where there is none that is said when it is written.
    (void)open_spare(padded.size());
    return ok_status();
  }

  Result<std::string> set_aside() override {
    const fs::path kept = aside(path_);
    if (::rename(path_.c_str(), kept.c_str()) != 0) {
      return failure(path_, "is damaged and cannot be moved aside");
    }
    return kept.string();
  }

 private:
  static Error failure(const fs::path& path, const char* what) {
    return Error::io(path.string(),
                     std::string(what) + ": " + std::generic_category().message(errno));
  }

  /// The second file, with space for so many bytes.
  Result<UniqueFd> open_spare(std::size_t bytes) const {
    auto spare = open_trusted(spare_, O_WRONLY | O_CREAT);
    if (!spare.ok()) {
      // Whatever lies there is not the agent's.
      ::unlink(spare_.c_str());
      spare = open_trusted(spare_, O_WRONLY | O_CREAT | O_EXCL);
    }
    if (!spare.ok()) return spare;
    const bool taken = ::fallocate(spare->get(), 0, 0, static_cast<off_t>(bytes)) == 0;
    if (!taken && errno != EOPNOTSUPP) return failure(spare_, "cannot take space");
    return spare;
  }

  Status write_spare(std::string_view text) const {
    const auto spare = HARPE_TRY(open_spare(text.size()));
    const off_t size = static_cast<off_t>(text.size());
    while (!text.empty()) {
      const ssize_t written = ::write(spare.get(), text.data(), text.size());
      if (written < 0 && errno != EINTR) return failure(spare_, "cannot write");
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::ftruncate(spare.get(), size) != 0 || ::fchmod(spare.get(), S_IRUSR | S_IWUSR) != 0) {
      return failure(spare_, "cannot write");
    }
    if (::fsync(spare.get()) != 0) return failure(spare_, "cannot flush to the disk");
    return ok_status();
  }

  const fs::path path_, spare_;
  const std::size_t reserve_;
};

}  // namespace

std::unique_ptr<StateStorage> make_file_storage(fs::path path, std::size_t reserve) {
  return std::make_unique<FileStorage>(std::move(path), reserve);
}

}  // namespace harpe
