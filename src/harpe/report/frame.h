#pragma once
/// \file
/// The frame of every page: head with the one style sheet, title, what the figures are not, body,
/// footer with what made it. A page is one file that names no other resource. It follows the
/// reader's light or dark theme (`page/page.css`) and prints light.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

struct Frame {
  std::string title = {}, subtitle = {};   ///< text
  std::vector<std::string> banners = {};   ///< text: what must stay in sight on the whole page
  std::vector<std::string> premises = {};  ///< text: what the figures rest on, below the banners
  std::string body = {}, notes = {};       ///< markup; notes stand in the footer
  PageSource source = {};
  std::string end = {};  ///< markup behind everything: data, scripts
  bool has_scripts = false;
};

std::string framed_page(const Frame& frame);

/// The words of a caption under a figure of such a kind, as markup: "Simulated GPUs, not real
/// ones."; nothing where `remark` is empty.
std::string doubt_markup(std::string_view remark);

inline constexpr std::string_view kSimulatedCaption = "Simulated GPUs, not real ones.";

}  // namespace harpe::report
