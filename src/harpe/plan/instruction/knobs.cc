#include "harpe/plan/instruction/knobs.h"

#include <algorithm>

namespace harpe {

std::optional<Label> Label::of(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:+/";
  if (text.empty() || text.size() > kMostBytes) return std::nullopt;
  if (text.find_first_not_of(kLetters) != std::string_view::npos) return std::nullopt;
  Label label;
  std::ranges::copy(text, label.text_.begin());
  label.size_ = static_cast<unsigned char>(text.size());
  return label;
}

}  // namespace harpe
