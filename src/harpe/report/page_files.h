#pragma once
/// \file
/// The parts of pages, from `page/`, embedded by the build. `fill` replaces `{{name}}` in them.

#include <string_view>

namespace harpe::report {

extern const std::string_view kFrameHtml;      ///< the frame of every page
extern const std::string_view kPlanHtml;       ///< the content of a plan's report
extern const std::string_view kPlanNotesHtml;  ///< the notes of a plan's report
extern const std::string_view kPlanEndHtml;    ///< the data and scripts of a plan's report
extern const std::string_view kPageCss;  ///< the style sheet of every page; begins with the palette
extern const std::string_view kPageJs;

}  // namespace harpe::report
