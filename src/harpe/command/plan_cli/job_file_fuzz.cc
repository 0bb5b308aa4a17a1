// Job files: an accepted file, written as TOML and read again, has the same entries.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harpe/command/plan_cli/plan_job.h"

namespace harpe::command {
namespace {

std::string toml_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml(const std::vector<JobEntry>& entries) {
  std::string text;
  for (const JobEntry& entry : entries) {
    text += std::string(entry.key->name) + " = ";
    if (entry.key->value.empty()) {
      text += "true\n";
      continue;
    }
    std::string list;
    for (const std::string& value : entry.values) {
      list += (list.empty() ? "" : ", ") + toml_string(value);
    }
    text += (entry.values.size() == 1 ? list : "[" + list + "]") + "\n";
  }
  return text;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace
}  // namespace harpe::command

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harpe::command;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto entries = parse_job(text, "job.toml");
  if (!entries.ok()) {
    require(!entries.error().diagnostics.empty() &&
            entries.error().diagnostics[0].file == "job.toml");
    return 0;
  }
  const auto again = parse_job(toml(*entries), "job.toml");
  require(again.ok() && again->size() == entries->size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const JobEntry& one = (*entries)[i];
    require(one.line >= 1 && one.column >= 1);
    require((*again)[i].key == one.key && (*again)[i].values == one.values);
  }
  const auto job = make_job(*entries, {});
  require(job.ok() || !job.error().diagnostics.empty());
  return 0;
}
