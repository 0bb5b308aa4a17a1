#pragma once
/// \file
/// The parts of pages, from `page/`, as the build has embedded them. `{{name}}` in them is a place
/// for `fill`.

#include <string_view>

namespace harpe::report {

extern const std::string_view kFrameHtml;      ///< of every page
extern const std::string_view kPlanHtml;       ///< what the report of a plan has in it
extern const std::string_view kPlanNotesHtml;  ///< below it
extern const std::string_view kPlanEndHtml;    ///< its data and scripts
extern const std::string_view kPageCss;        ///< of every page; begins with the palette
extern const std::string_view kPageJs;

}  // namespace harpe::report
