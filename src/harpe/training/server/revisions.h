#pragma once
/// \file
/// Which state of a job the store has: states are counted, and the store refuses an older one than
/// it has.
///
/// Checked in every build, since a state that was lost or mixed up cannot be told from one that was
/// meant: what is stored never goes back; a revision has one content, whether or not a write before
/// was done; the store is said to have what was written alone.
///
/// Not thread-safe.

#include <cstdint>
#include <optional>

namespace harpe::training {

class Revisions {
 public:
  /// Of a job that the store does not have.
  Revisions() = default;
  /// Of one that was read from the store.
  static Revisions of_stored(std::int64_t revision);

  std::int64_t newest() const { return newest_; }  ///< of what the job is now
  std::int64_t stored() const { return stored_; }
  bool in_store() const { return in_store_; }
  /// Whether the store has not been given what the job is now.
  bool differs() const { return differs_; }
  /// Whether the store has what the job is now.
  bool is_stored() const { return in_store_ && stored_ >= newest_; }

  void change();
  /// What the job is now is written, by the revision that is returned.
  std::int64_t write();
  /// What was written last could not be, or it is not known whether it was.
  void failed(std::int64_t revision);
  /// The store has what was written by this revision.
  void written(std::int64_t revision);

 private:
  std::int64_t newest_ = 0, stored_ = 0;
  std::optional<std::int64_t> in_flight_;  ///< written, without a response
  bool differs_ = false, in_store_ = false;
};

}  // namespace harpe::training
