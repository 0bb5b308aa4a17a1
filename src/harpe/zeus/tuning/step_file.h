#pragma once
/// \file
/// The file by which a program reports its steps, with a change of one line: the program appends to
/// the file that the environment variable HARPE_STEPS names.
///
///   an empty line, or "step"   a training step begins
///   "epoch"                    an epoch has ended; the next step begins with the next line
///
///   echo >> "$HARPE_STEPS"                                   # shell
///   print(file=open(os.environ["HARPE_STEPS"], "a"))         # Python
///
/// One process of a job (rank 0) writes to the file: steps of several would add up. Other lines are
/// ignored and counted. The program owns the file: it may truncate, rewrite or remove it, or append
/// gigabytes at once, and none of this stops the reader or fills its memory.
///
/// If a program does not flush its output, the lines of many steps arrive at once after a long
/// silence, and the start of each step is unknown.

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/temporary_folder.h"
#include "harpe/base/unique_fd.h"

namespace harpe::zeus {

struct StepEvent {
  enum class Kind : unsigned char { kStep, kEpochEnd };
  Kind kind = Kind::kStep;
  Instant at{};  ///< when it was read; events read together are spread since the poll before
};

/// Parser of lines from pieces of bytes. Pure; O(bytes); keeps only the start of a line.
class StepParser {
 public:
  /// Returns the events of the lines that these bytes complete.
  std::vector<StepEvent::Kind> add(std::string_view bytes);
  /// Discards an unfinished line.
  void restart();

  std::uint64_t ignored() const { return ignored_; }  ///< unknown lines

 private:
  static constexpr std::size_t kLongest = 16;  ///< bytes of a line that are looked at

  std::string line_;       ///< first bytes of the unfinished line
  bool too_long_ = false;  ///< true if the line is longer than any known line
  std::uint64_t ignored_ = 0;
};

/// A problem with the file that a tuner must know.
struct StepTrouble {
  std::string what{};           ///< for the report
  bool are_steps_timed = true;  ///< false if the times of events are guesses from now on
};

/// The step file, as read by another process. Not thread-safe.
class StepFile {
 public:
  /// Creates an empty file in a new directory that only this user can access. Both are removed with
  /// this object.
  static Result<StepFile> create();
  const std::filesystem::path& path() const { return path_; }

  /// Returns the events that were written since the last poll. Takes one system call if there are
  /// none. Reads at most 1 MiB; if more than 16 MiB are unread, skips all but the newest 1 MiB.
  std::vector<StepEvent> poll(Instant now);
  /// Returns, once each, a problem that the last poll found: the file was removed, another file
  /// replaced it, or steps arrive in bursts.
  std::optional<StepTrouble> take_trouble() { return std::exchange(trouble_, std::nullopt); }

  const StepParser& parser() const { return parser_; }
  /// Times the file was truncated or replaced.
  std::uint64_t restarts() const { return restarts_; }
  std::uint64_t skipped() const { return skipped_; }  ///< bytes
  /// Returns the number of lines faster than any training makes steps; they are no events.
  std::uint64_t refused() const { return refused_; }

 private:
  explicit StepFile(TemporaryFolder folder)
      : folder_(std::move(folder)), path_(folder_.path() / "steps") {}
  void follow(const struct stat& seen);
  void read_to(std::int64_t size, std::vector<StepEvent::Kind>& kinds);
  void look_for_bursts(std::size_t steps, Instant before, Instant now);
  void refuse_impossible(std::vector<StepEvent::Kind>& kinds, Instant now);

  TemporaryFolder folder_;
  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t device_ = 0, inode_ = 0;
  std::int64_t offset_ = 0;      ///< bytes read
  std::int64_t lines_ = 0;       ///< complete lines among them
  std::int64_t written_ns_ = 0;  ///< time of the last change
  bool touched_ = false;         ///< its time has changed since, but not its length
  StepParser parser_;
  std::uint64_t restarts_ = 0, skipped_ = 0;
  Instant looked_{};
  std::uint64_t refused_ = 0;
  Instant found_{};  ///< poll that last found steps, or the first poll
  int bursts_ = 0;   ///< in a row
  bool has_steps_ = false, is_bursty_ = false, was_removed_ = false, was_replaced_ = false;
  std::optional<StepTrouble> trouble_;
};

}  // namespace harpe::zeus
