#include "harpe/report/frame.h"

#include "harpe/report/markup.h"
#include "harpe/report/page_files.h"

namespace harpe::report {
namespace {

std::string inputs_markup(const PageSource& source) {
  std::string list;
  for (const auto& [name, digest] : source.inputs) {
    list += concat({list.empty() ? "" : "; ", escape(name)});
    if (!digest.empty()) list += concat({" <code>", escape(digest), "</code>"});
  }
  return list.empty() ? list : concat({"<p><b>Inputs.</b> ", list, "</p>\n"});
}

}  // namespace

std::string doubt_markup(std::string_view remark) {
  return remark.empty() ? std::string()
                        : concat({"<strong class=\"doubt\">", escape(remark), "</strong>"});
}

std::string framed_page(const Frame& frame) {
  std::string banners;
  for (const std::string& text : frame.banners) {
    banners += concat({"<p class=\"banner\" role=\"note\">", escape(text), "</p>\n"});
  }
  for (const std::string& text : frame.premises) {
    banners += concat({"<p class=\"premise\" role=\"note\">", escape(text), "</p>\n"});
  }
  const PageSource& source = frame.source;
  const std::string title = escape(frame.title), subtitle = escape(frame.subtitle);
  const std::string program = escape(source.program), command = escape(source.command);
  const std::string inputs = inputs_markup(source);
  const std::string documentation = escape(
      source.documentation.empty() ? "harpe --help, and docs/ of Harpe." : source.documentation);
  return fill(kFrameHtml, {{"policy", frame.has_scripts ? "script-src 'unsafe-inline'; " : ""},
                           {"title", title},
                           {"style", kPageCss},
                           {"subtitle", subtitle},
                           {"banner", banners},
                           {"body", frame.body},
                           {"notes", frame.notes},
                           {"program", program},
                           {"command", command.empty() ? "harpe" : command},
                           {"inputs", inputs},
                           {"documentation", documentation},
                           {"end", frame.end}});
}

}  // namespace harpe::report
