#include "harpe/command/cli/terminal_text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace harpe::command {
namespace {

constexpr std::array<std::string_view, 8> kLevels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels = "_.-=+*%#";
constexpr std::string_view kResetPaint = "\x1b[0m";

/// The first UTF-8 character of a text.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0 if there is none
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

/// Returns true if the character moves the cursor, has no width, or changes the direction of text.
bool is_hidden(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || (c >= 0x0300 && c <= 0x036F) ||
         c == 0x061C || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

/// Returns the length of the colour sequence at the beginning of a text; 0 if there is none.
std::size_t paint_of(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find('m');
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Returns true for a digit, or for the placeholder of an unknown number.
bool is_figure(char c) {
  return (c >= '0' && c <= '9') || c == '?';
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character c = first_of(text);
    const std::size_t bytes = std::max<std::size_t>(c.bytes, 1);
    shown += c.bytes == 0 || is_hidden(c.code) ? "?" : text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return shown;
}

std::string ascii_text(std::string_view text) {
  std::string ascii;
  while (!text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(first_of(text).bytes, 1);
    const std::string_view one = text.substr(0, bytes);
    const auto level = std::ranges::find(kLevels, one);
    if (level != kLevels.end()) {
      ascii += kAsciiLevels[static_cast<std::size_t>(level - kLevels.begin())];
    } else if (one == "±") {
      // The number moves a column to the left, so that the width remains the same.
      const std::string_view after = text.substr(bytes);
      ascii += "+-";
      if (after.size() > 1 && after[0] == ' ' && is_figure(after[1])) text.remove_prefix(1);
    } else if (one == "…") {
      ascii += '~';
    } else {
      ascii += bytes == 1 && static_cast<unsigned char>(one[0]) < 0x80 ? one[0] : '?';
    }
    text.remove_prefix(bytes);
  }
  return ascii;
}

std::string bar(double share, std::string text, std::size_t width, Paint paint, bool coloured) {
  const std::size_t room = std::max<std::size_t>(width, 5) - 2;
  if (text.size() > room) text = text.substr(0, room - 1) + "~";
  const double filled = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
  const auto columns = static_cast<std::size_t>(std::lround(filled * static_cast<double>(room)));
  // The text covers the end of the bar; its colour shows how far the bar extends.
  const std::size_t before = room - text.size();
  std::string inside(std::min(columns, before), '|');
  inside.resize(before, ' ');
  inside += text;
  if (!coloured) return "[" + inside + "]";
  const std::size_t cut = std::min(columns, inside.size());
  const std::string rest = inside.substr(cut);
  return "[" + (cut > 0 ? painted(inside.substr(0, cut), paint, true) : "") + rest + "]";
}

std::string spark(std::span<const double> levels) {
  std::string line;
  for (const double level : levels) {
    if (!std::isfinite(level)) {
      line += ' ';
      continue;
    }
    const double place = std::clamp(level, 0.0, 1.0) * static_cast<double>(kLevels.size() - 1);
    line += kLevels[static_cast<std::size_t>(std::lround(place))];
  }
  return line;
}

std::size_t shown_width(std::string_view line) {
  std::size_t width = 0;
  while (!line.empty()) {
    if (const std::size_t paint = paint_of(line); paint > 0) {
      line.remove_prefix(paint);
      continue;
    }
    width += 1;
    line.remove_prefix(std::max<std::size_t>(first_of(line).bytes, 1));
  }
  return width;
}

std::string cut_painted(std::string_view line, std::size_t width) {
  if (shown_width(line) <= width) return std::string(line);
  std::string cut;
  bool is_painted = false;
  for (std::size_t shown = 0; !line.empty();) {
    std::size_t bytes = paint_of(line);
    if (bytes > 0) {
      is_painted = line.substr(0, bytes) != kResetPaint;
    } else {
      if (++shown >= width) break;
      bytes = std::max<std::size_t>(first_of(line).bytes, 1);
    }
    cut += line.substr(0, bytes);
    line.remove_prefix(bytes);
  }
  if (width > 0) cut += "…";
  if (is_painted) cut += kResetPaint;
  return cut;
}

}  // namespace harpe::command
