#pragma once
/// \file
/// What `harpe plan` shows and writes.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan_cli/planning.h"

namespace harpe {

/// A file still to be written: its name and content.
using OutputFile = std::pair<std::string, std::string>;

/// All files of `--out`; that for Zeus only of a plan without knobs.
Result<std::vector<OutputFile>> make_output_files(const Frontier& frontier, const PlanJob& job,
                                                  const Planned& planned);

/// Writes all files into the directory, or none: files of an earlier run stay as they were when one
/// fails. Removes the certificate and the plan for Zeus of an earlier plan. Returns their paths.
Result<std::vector<std::string>> write_output_files(const std::filesystem::path& directory,
                                                    const std::vector<OutputFile>& files);

/// A small table of what was found, and where the files are.
std::string summary_text(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files, bool coloured);
std::string summary_json(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files);

}  // namespace harpe
