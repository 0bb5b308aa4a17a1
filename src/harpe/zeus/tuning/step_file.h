#pragma once
/// \file
/// How a program tells of its steps without being changed more than by a line: it appends to the
/// file that the environment variable HARPE_STEPS names.
///
///   an empty line, or "step"   a training step begins
///   "epoch"                    an epoch has ended; the next step begins with the next line
///
///   echo >> "$HARPE_STEPS"                                   # shell
///   print(file=open(os.environ["HARPE_STEPS"], "a"))         # Python
///
/// One process of a job writes (rank 0): steps of several would be counted one after another. Other
/// lines are passed over and counted. The file is the program's: it may be cut, rewritten, removed,
/// or grow by gigabytes at once, and none of that may stop the reader or fill its memory.
///
/// A program that does not flush its output delivers the lines of many steps at once, and nothing
/// for a long time before: when each step began is not known then.

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
  Instant at{};  ///< when it was seen; of several seen at once, spread since the look before
};

/// Lines out of bytes that come in pieces. Pure; O(bytes); holds no more than the start of a line.
class StepParser {
 public:
  /// The lines that these bytes complete.
  std::vector<StepEvent::Kind> add(std::string_view bytes);
  /// Forgets an unfinished line.
  void restart();

  std::uint64_t ignored() const { return ignored_; }  ///< lines that say nothing known

 private:
  static constexpr std::size_t kLongest = 16;  ///< bytes of a line that decide

  std::string line_;       ///< the unfinished one, its first bytes
  bool too_long_ = false;  ///< for any known line
  std::uint64_t ignored_ = 0;
};

/// Something about the file that a tuner must know.
struct StepTrouble {
  std::string what{};           ///< for the report
  bool are_steps_timed = true;  ///< false: the instants of events are guesses from now on
};

/// The file, looked at from beside. Not thread-safe.
class StepFile {
 public:
  /// An empty file in a new directory of this user alone, both removed with this.
  static Result<StepFile> create();
  const std::filesystem::path& path() const { return path_; }

  /// What was written since the last look. Costs a system call where nothing was; reads at most
  /// 1 MiB, and passes over what a program wrote beyond 16 MiB at once.
  std::vector<StepEvent> poll(Instant now);
  /// What the last look found wrong: the file was removed, another one is in its place, or steps
  /// arrive in bursts. Once each.
  std::optional<StepTrouble> take_trouble() { return std::exchange(trouble_, std::nullopt); }

  const StepParser& parser() const { return parser_; }
  std::uint64_t restarts() const { return restarts_; }  ///< times the file was cut or replaced
  std::uint64_t skipped() const { return skipped_; }    ///< bytes passed over
  /// Lines that came faster than any training makes steps; they are no events.
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
  std::int64_t lines_ = 0;       ///< complete ones among them
  std::int64_t written_ns_ = 0;  ///< time of the last change
  bool touched_ = false;         ///< its time has changed since, and not its length
  StepParser parser_;
  std::uint64_t restarts_ = 0, skipped_ = 0;
  Instant looked_{};
  std::uint64_t refused_ = 0;
  Instant found_{};  ///< look that last found steps, or the first look
  int bursts_ = 0;   ///< one after another
  bool has_steps_ = false, is_bursty_ = false, was_removed_ = false, was_replaced_ = false;
  std::optional<StepTrouble> trouble_;
};

}  // namespace harpe::zeus
