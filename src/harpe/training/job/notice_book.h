#pragma once
/// \file
/// What ranks of a job told people: equal texts are one, with the ranks that told it. The job's
/// first rank says each once, a moment after it was told, so that one line names all ranks.
/// Not thread-safe. Texts are few: what takes more than `kMost` is not taken, and ranks say it
/// themselves.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/training/wire/rank_notices.h"

namespace harpe {

class NoticeBook {
 public:
  static constexpr std::size_t kMost = 32;
  /// After the last rank told a text, until it is said: others may tell it, too.
  static constexpr Seconds kSettle{2};
  /// After the first one at the latest.
  static constexpr Seconds kLongestSettle{10};
  /// The first rank asks so often at least, or others are told that it does not.
  static constexpr Seconds kUnheard{30};
  /// A rank that tells the same again within this has not heard the response.
  static constexpr Seconds kAgain{60};

  explicit NoticeBook(int ranks) : ranks_(ranks) {}

  /// \returns whether it was taken
  bool add(int rank, std::string_view text, Seconds now);
  /// For the first rank: what it was not given yet, or may not have got. O(notices x ranks).
  /// \param heard  number of the newest that it was given
  /// \param last  it ends
  std::vector<JobNotice> ask(std::uint64_t heard, bool last, Seconds now);
  /// Whether the first rank asks.
  bool is_asked(Seconds now) const { return asked_ && now - *asked_ < kUnheard; }
  /// All there are, those that were told last at the end.
  std::vector<JobNotice> all() const;

 private:
  struct Entry {
    std::string text;
    std::set<int> ranks;      ///< that told it, ever
    std::set<int> fresh;      ///< of those, whom the first rank has not named yet
    Seconds first{}, last{};  ///< when one of `fresh` told it
    std::optional<Seconds> said{};
  };
  bool settled(const Entry& entry, Seconds now) const;

  int ranks_;
  std::vector<Entry> entries_;   ///< by the time they were told last
  std::deque<JobNotice> given_;  ///< to the first rank, which may not have got them
  std::uint64_t newest_ = 0;
  std::optional<Seconds> asked_;
};

}  // namespace harpe
