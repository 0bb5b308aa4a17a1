#pragma once
/// \file
/// A client that sends any message to the agent's clock socket, for tests.

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "harpe/base/unique_fd.h"

namespace harpe::node {

class ClockSocketClient {
 public:
  ClockSocketClient() : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const timeval patience{20, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  explicit ClockSocketClient(const std::filesystem::path& path) : ClockSocketClient() {
    connected_ = connect(path);
  }
  bool connect(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
           0;
  }
  bool connected() const { return connected_; }
  int socket() const { return socket_.get(); }

  void say(const std::string& text) const {
    ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Returns the next message, and stores the descriptor sent with it. Returns "" if the agent hung
  /// up, "nothing" if nothing arrived within 20 s.
  std::string hear() {
    std::array<char, 4096> text{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec part{text.data(), text.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr && size > 0) {
      std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    }
    if (size < 0 && errno == EAGAIN) return "nothing";
    return size <= 0 ? "" : std::string(text.data(), static_cast<std::size_t>(size));
  }
  int descriptor = -1;  ///< to be closed by the caller

 private:
  UniqueFd socket_;
  bool connected_ = false;
};

}  // namespace harpe::node
