#pragma once
/// \file
/// Output of `harpe plan`, on the terminal and in files.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// A file to be written: its name and content.
using OutputFile = std::pair<std::string, std::string>;

/// Returns "1f1b, 8 stages, 96 micro-batches, 8 GPUs a stage; profile gpt3.csv".
std::string subtitle_of(const Plan& plan, const PlanJob& job);

/// Returns the origin that the report states: the files of the job with their digests, and the
/// digest of all inputs together, which frontier.json contains too.
/// \param job_file  may be the profile itself, or empty
PageSource page_source(const Commands& commands, const std::filesystem::path& job_file,
                       const Frontier& frontier, const PlanJob& job, const Planned& planned);

/// Returns all files of `--out`; the file for Zeus only if the plan has no knobs.
Result<std::vector<OutputFile>> make_output_files(const Frontier& frontier, const PlanJob& job,
                                                  const Planned& planned, PageSource source);

/// Paths that were written, and renamed files of an earlier plan: from, to.
struct WrittenFiles {
  std::vector<std::string> written;
  std::vector<std::pair<std::string, std::string>> kept_aside;
};

/// Returns one sentence for each part of a large pipeline that the files omit, with the option that
/// includes it.
std::vector<std::string> left_out(const Frontier& frontier, const PlanJob& job);

/// Returns the names of the files that not every plan has: its certificate, and its form for Zeus.
std::vector<std::string> optional_plan_files();

/// Writes all files into the directory, or none: if one fails, the files of an earlier run do not
/// change.
/// \param optional  names of files that not every run writes. If an earlier run wrote such a file
///                  and this one does not, it would seem to belong to this run, so it is renamed to
///                  "earlier-...", or "earlier-2-..." if that name is taken
Result<WrittenFiles> write_output_files(const std::filesystem::path& directory,
                                        const std::vector<OutputFile>& files,
                                        const std::vector<std::string>& optional);

/// Returns the names of all files that `harpe plan --out` may write.
std::vector<std::string> output_names(bool has_own_profile);

/// Fails if a file of these names in the directory is an input of the job.
Status spare_inputs(const std::filesystem::path& directory, const PlanJob& job,
                    const std::vector<std::string>& names);

/// Returns a small table of the results, and the paths of the files.
std::string summary_text(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files, bool coloured);
std::string summary_json(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files);

}  // namespace harpe::command
