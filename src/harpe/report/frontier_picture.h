#pragma once
/// \file
/// The frontier as one SVG element, for a file of its own or within a page.

#include <string>

#include "harpe/report/report.h"
#include "harpe/report/svg.h"

namespace harpe::report {

std::string frontier_picture(const ReportInput& input, Ground ground);

}  // namespace harpe::report
