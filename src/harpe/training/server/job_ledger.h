#pragma once
/// \file
/// What a job has used, hour by hour, from its first start of training on: energies that its ranks
/// have reported, and the time that it held its GPUs. Kept with the job in the store, a part for
/// each day, so that a long life costs a save no more than a short one.
///
/// Times are of the machine's clock as it was. What happens while no server has the job is not in
/// it. On the loop's thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/training/job/reported_use.h"

namespace harpe::training {

class JobLedger {
 public:
  /// The settlement period of most markets; divides the steps of those that are longer.
  static constexpr carbon::WholeSeconds kStep = carbon::whole_minutes(15);
  /// Starts of training that are told apart; what begins later counts to the last of them.
  static constexpr std::size_t kMostStarts = 1000;

  /// A start of training that uses something now.
  struct Training {
    std::string incarnation;  ///< of the job
    std::uint64_t start = 0;
    std::string run;
    int ranks = 0;  ///< that hold places
    int all = 0;    ///< that it has when it is complete
  };

  /// Whoever registered the job; of starts that begin from now on, and of the one there is, if it
  /// has none.
  void set_user(const std::string& user);
  const std::string& user() const { return user_; }

  /// \param ended  when the iteration had, in seconds since 1970
  void add(const Training& training, const ReportedUse& use, double ended);
  /// The GPUs of all its ranks were held from ... to ..., in seconds since 1970.
  void hold(const Training& training, double from, double to);
  /// Training paused from ... to ..., whether its ranks waited or had ended.
  void pause(const Training& training, double from, double to);

  /// Starts in their order, with what they used in intervals that begin in [from, to).
  std::vector<carbon::LedgerRun> runs(const std::string& job, carbon::UtcTime from,
                                      carbon::UtcTime to) const;
  std::size_t memory() const;  ///< bytes, about

  // As texts, by name.
  static constexpr std::string_view kParts = "energy:";
  /// The parts that have changed since the last call.
  std::map<std::string, std::string> take_changed_parts();
  /// Others than its own are left alone. What cannot be read is left out. \param log  gets why
  static JobLedger read(const std::map<std::string, std::string>& parts,
                        const std::function<void(const std::string&)>& log);

 private:
  carbon::LedgerRun& run_of(const Training& training);
  void put(carbon::LedgerRun& run, double from, double to, const carbon::EnergyUse& use);

  std::string user_;
  bool user_changed_ = false;
  std::map<std::int64_t, carbon::LedgerRun> runs_;  ///< by start
  std::set<carbon::UtcTime> changed_days_;
  std::size_t intervals_ = 0;
};

}  // namespace harpe::training
