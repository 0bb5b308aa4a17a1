#pragma once
/// \file
/// What `harpe plan` shows and writes.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// A file still to be written: its name and content.
using OutputFile = std::pair<std::string, std::string>;

/// Returns "1f1b, 8 stages, 96 micro-batches, 8 GPUs a stage; profile gpt3.csv".
std::string subtitle_of(const Plan& plan, const PlanJob& job);

/// What the report says it was made of: the files of the job with their digests, and that of all
/// inputs together, which frontier.json has, too.
/// \param job_file  may be the profile itself, or empty
PageSource page_source(const Commands& commands, const std::filesystem::path& job_file,
                       const Frontier& frontier, const PlanJob& job, const Planned& planned);

/// All files of `--out`; that for Zeus only of a plan without knobs.
Result<std::vector<OutputFile>> make_output_files(const Frontier& frontier, const PlanJob& job,
                                                  const Planned& planned, PageSource source);

/// Paths that were written, and those of an earlier plan that had to give way: from, to.
struct WrittenFiles {
  std::vector<std::string> written;
  std::vector<std::pair<std::string, std::string>> kept_aside;
};

/// What of a large pipeline is left out of the files unless the job asks for it, and how it does: a
/// sentence each.
std::vector<std::string> left_out(const Frontier& frontier, const PlanJob& job);

/// Returns the names of the files that not every plan has: its certificate, and its form for Zeus.
std::vector<std::string> optional_plan_files();

/// Writes all files into the directory, or none: files of an earlier run stay as they were when one
/// fails.
/// \param optional  names of files that not every run writes. One of an earlier run that is not
///                  written again would look as if it belonged to this run: it is renamed to
///                  "earlier-...", or "earlier-2-..." if that name is taken
Result<WrittenFiles> write_output_files(const std::filesystem::path& directory,
                                        const std::vector<OutputFile>& files,
                                        const std::vector<std::string>& optional);

/// Returns the names of all files that `harpe plan --out` may write.
std::vector<std::string> output_names(bool has_own_profile);

/// Fails if a file of these names in the directory is an input of the job.
Status spare_inputs(const std::filesystem::path& directory, const PlanJob& job,
                    const std::vector<std::string>& names);

/// A small table of what was found, and where the files are.
std::string summary_text(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files, bool coloured);
std::string summary_json(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files);

}  // namespace harpe::command
