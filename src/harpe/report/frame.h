#pragma once
/// \file
/// The frame of every page: head with the shared style sheet, title, remarks on the limits of the
/// figures, body, and a footer with the origin of the page. A page is one file that links to no
/// other resource. It follows the reader's light or dark theme (`page/page.css`) and prints light.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

struct Frame {
  std::string title = {}, subtitle = {};   ///< text
  std::vector<std::string> banners = {};   ///< text: remarks that stay visible on the whole page
  std::vector<std::string> premises = {};  ///< text: assumptions of the figures, below the banners
  std::string body = {}, notes = {};       ///< markup; notes are in the footer
  PageSource source = {};
  std::string end = {};  ///< markup at the end: data, scripts
  bool has_scripts = false;
};

std::string framed_page(const Frame& frame);

/// Returns the remark of a caption below a figure as markup: "Simulated GPUs, not real ones.";
/// empty if `remark` is empty.
std::string doubt_markup(std::string_view remark);

inline constexpr std::string_view kSimulatedCaption = "Simulated GPUs, not real ones.";

}  // namespace harpe::report
