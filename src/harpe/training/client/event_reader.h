#pragma once
/// \file
/// Server-sent events (WHATWG HTML, section 9.2) as they come in, in pieces of any size.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::training {

/// Not thread-safe. Keeps at most `kLongest` bytes of one event.
class EventReader {
 public:
  struct Event {
    std::string name;  ///< "message" where the stream names none
    std::string data;  ///< its lines joined by line ends
  };
  using Listener = std::function<void(const Event&)>;

  /// Reports every event that ends in these bytes. Fails on an event that is too long; the rest
  /// of the stream is then worth nothing.
  Status add(std::string_view bytes, const Listener& listener);

  static constexpr std::size_t kLongest = std::size_t{1} << 23;

 private:
  void take_line(std::string_view line, const Listener& listener);

  std::string line_;  ///< begun, without its end
  bool after_return_ = false;
  bool at_start_ = true;  ///< of the stream, where a byte order mark may stand
  std::string name_, data_;
  bool has_data_ = false;
};

}  // namespace harpe::training
