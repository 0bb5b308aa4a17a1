#pragma once
/// \file
/// A minimal XML reader for tests: checks that a picture is well-formed and finds parts of a page.

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace harpe::report {

/// Returns the first error of an XML document; empty if all tags are closed in order, no tag
/// contains a `<`, and neither text nor tags contain a bare `&`.
inline std::string xml_error(std::string_view xml) {
  const auto entities_fault = [](std::string_view text) {
    for (std::size_t at = text.find('&'); at != std::string_view::npos;
         at = text.find('&', at + 1)) {
      const std::size_t end = text.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return true;
    }
    return false;
  };
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < xml.size()) {
    const std::size_t tag = xml.find('<', at);
    if (entities_fault(xml.substr(at, tag - at))) return "a bare & in text";
    if (tag == std::string_view::npos) break;
    std::size_t end = tag + 1;
    bool quoted = false;
    while (end < xml.size() && (quoted || xml[end] != '>')) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return "a < inside a tag";
      ++end;
    }
    if (end == xml.size()) return "a tag that does not close";
    const std::string_view inside = xml.substr(tag + 1, end - tag - 1);
    if (entities_fault(inside)) return "a bare & in a tag";
    const std::string name(inside.substr(0, inside.find_first_of(" \n/", 1)));
    if (name[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return "unexpected " + name;
      open.pop_back();
    } else if (inside.back() != '/' && name != "meta" && name != "input" && name != "br") {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

/// Returns `xml_error` of a page without its doctype, scripts and styles, which have other rules.
inline std::string html_error(std::string_view page) {
  constexpr std::string_view kDoctype = "<!doctype html>\n";
  if (page.substr(0, kDoctype.size()) != kDoctype) return "no doctype";
  std::string markup(page.substr(kDoctype.size()));
  for (const std::string element : {"script", "style"}) {
    std::size_t at = 0;
    while ((at = markup.find("<" + element, at)) != std::string::npos) {
      const std::size_t begin = markup.find('>', at) + 1;
      const std::size_t end = markup.find("</" + element + ">", begin);
      if (end == std::string::npos) return element + " is not closed";
      markup.erase(begin, end - begin);
      at = begin;
    }
  }
  return xml_error(markup);
}

/// Returns the number of occurrences of `part` in `text`.
inline int occurrences(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

/// Returns the text between the first `from` and the next `to`; empty if there is no `from`.
inline std::string_view between(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t begin = text.find(from);
  if (begin == std::string_view::npos) return {};
  const std::size_t start = begin + from.size();
  return text.substr(start, text.find(to, start) - start);
}

/// Returns a document's references to external resources: `http` other than the SVG namespace,
/// `src`, `@import`, `url(` and links that are not anchors in the document, requests of scripts.
inline std::vector<std::string> outside_references(std::string_view document) {
  std::vector<std::string> found;
  const auto note = [&](std::string_view part, auto allowed) {
    for (std::size_t at = document.find(part); at != std::string_view::npos;
         at = document.find(part, at + 1)) {
      const std::string_view rest = document.substr(at);
      if (!allowed(rest)) found.emplace_back(rest.substr(0, 60));
    }
  };
  const auto starts = [](std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
  };
  note("http", [&](std::string_view rest) {
    return starts(rest, "http://www.w3.org/2000/svg") || starts(rest, "http-equiv");
  });
  note("href", [&](std::string_view rest) { return starts(rest, "href=\"#"); });
  note("url(", [&](std::string_view rest) { return starts(rest, "url(#"); });
  for (const std::string_view never : {"src=", "@import", "fetch(", "XMLHttpRequest", "WebSocket",
                                       "import(", "sendBeacon", "//cdn"}) {
    note(never, [](std::string_view) { return false; });
  }
  return found;
}

}  // namespace harpe::report
