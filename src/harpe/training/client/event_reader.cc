#include "harpe/training/client/event_reader.h"

#include <utility>

#include "harpe/base/text.h"

namespace harpe::training {

Status EventReader::add(std::string_view bytes, const Listener& listener) {
  for (const char byte : bytes) {
    if (std::exchange(after_return_, byte == '\r') && byte == '\n') continue;
    if (byte == '\r' || byte == '\n') {
      const std::string line = std::exchange(line_, {});
      const std::string_view text = at_start_ ? without_byte_order_mark(line) : line;
      at_start_ = false;
      take_line(text, listener);
      continue;
    }
    line_ += byte;
    if (line_.size() + data_.size() > kLongest) {
      return Error::invalid("an event is longer than " + std::to_string(kLongest) + " bytes");
    }
  }
  return ok_status();
}

void EventReader::take_line(std::string_view line, const Listener& listener) {
  if (line.empty()) {
    if (has_data_) listener({name_.empty() ? "message" : name_, data_});
    name_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    name_ = value;
  } else if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

}  // namespace harpe::training
