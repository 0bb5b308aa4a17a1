#pragma once
/// \file
/// The parts of the report's page, from `page/`, as the build has embedded them.

#include <string_view>

namespace harpe::report {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace harpe::report
