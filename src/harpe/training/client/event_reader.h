#pragma once
/// \file
/// A reader of server-sent events (WHATWG HTML, section 9.2) that arrive in pieces of any size.

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
    std::string name;  ///< "message" if the stream names none
    std::string data;  ///< its lines joined by line ends
  };
  using Listener = std::function<void(const Event&)>;

  /// Reads bytes and calls the listener with every event that ends in them. Fails on an event that
  /// is too long; the rest of the stream cannot be read then.
  Status add(std::string_view bytes, const Listener& listener);

  static constexpr std::size_t kLongest = std::size_t{1} << 23;

 private:
  void take_line(std::string_view line, const Listener& listener);

  std::string line_;  ///< the incomplete line
  bool after_return_ = false;
  bool at_start_ = true;  ///< true at the start of the stream, which may have a byte order mark
  std::string name_, data_;
  bool has_data_ = false;
};

}  // namespace harpe::training
