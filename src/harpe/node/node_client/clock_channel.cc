#include "harpe/node/node_client/clock_channel.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "harpe/base/text.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kMostDescriptors = 4;  // one is expected
constexpr timeval kLongestWait{5, 0};        // an agent that hangs must not hang its clients

Error failure(const std::string& what, int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return Error::of(ErrorCode::kUnavailable, what + ": it did not answer within " +
                                                  std::to_string(kLongestWait.tv_sec) + " s");
  }
  return Error::of(ErrorCode::kUnavailable, what + ": " + std::generic_category().message(error));
}

struct Message {
  std::string text;
  std::vector<UniqueFd> descriptors;
};

Status send_text(int socket, const std::string& text) {
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) >= 0) return ok_status();
  return failure("cannot write to the agent", errno);
}

Result<Message> receive_message(int socket) {
  std::array<char, kLongestLine> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return failure("cannot read from the agent", errno);
  if (size == 0) return Error::of(ErrorCode::kUnavailable, "the agent closed the clock channel");
  Message message;
  message.text.assign(text.data(), static_cast<std::size_t>(size));
  for (cmsghdr* part_of = CMSG_FIRSTHDR(&header); part_of != nullptr;
       part_of = CMSG_NXTHDR(&header, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part_of) + i * sizeof(int), sizeof descriptor);
      message.descriptors.emplace_back(descriptor);
    }
  }
  return message;
}

/// Removes "word " from the front of the text. Returns false if the text does not begin with it.
bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word) || text.size() <= word.size() || text[word.size()] != ' ') {
    return false;
  }
  text.remove_prefix(word.size() + 1);
  return true;
}

Error unexpected(std::string_view text) {
  if (take_word(text, "error")) return Error::of(ErrorCode::kUnavailable, std::string(text));
  return Error::of(ErrorCode::kUnavailable, "the agent answered " + in_quotes(text) +
                                                ", which this client does not understand");
}

}  // namespace

void ClockChannel::Unmap::operator()(ClockMemory* memory) const {
  ::munmap(memory, ClockMemory::kBytes);
}

Result<ClockChannel> ClockChannel::open(const std::filesystem::path& path,
                                        const std::string& hello) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) {
    return Error::invalid("the path of the agent's clock socket is too long: " + name);
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  ClockChannel channel;
  channel.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const int socket = channel.socket_.get();
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof kLongestWait);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kLongestWait, sizeof kLongestWait);
  if (socket < 0 ||
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failure("cannot connect to the agent's clock socket " + name, errno);
  }
  // An agent that refuses at once has already closed its end, but its reason can still be read.
  const Status sent = send_text(socket, hello);
  HARPE_TRY(channel.receive());
  HARPE_TRY(sent);
  return channel;
}

Status ClockChannel::receive() {
  for (;;) {
    auto message = HARPE_TRY(receive_message(socket_.get()));
    std::string_view text = message.text;
    if (take_word(text, "gpu")) {
      const auto index = parse_integer(text);
      if (!index || message.descriptors.size() != 1) return unexpected(message.text);
      struct stat status{};
      const int file = message.descriptors[0].get();
      if (::fstat(file, &status) != 0 || status.st_size != ClockMemory::kBytes) {
        return unexpected(message.text);
      }
      void* memory =
          ::mmap(nullptr, ClockMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (memory == MAP_FAILED) return failure("cannot map the clock channel", errno);
      memories_.emplace_back(static_cast<ClockMemory*>(memory));
      if (memories_.back()->magic != ClockMemory::kMagic ||
          memories_.back()->version != ClockMemory::kVersion) {
        return unexpected(message.text);
      }
      gpus_.push_back(static_cast<int>(*index));
    } else if (take_word(text, "ready")) {
      const std::size_t space = text.find(' ');
      const auto seconds = parse_number(text.substr(std::min(space, text.size())));
      if (!seconds) return unexpected(message.text);
      lease_ = std::string(text.substr(0, space));
      duration_ = Seconds{*seconds};
      return ok_status();
    } else {
      return unexpected(text);
    }
  }
}

Result<ClockChannel> ClockChannel::join(const std::filesystem::path& socket,
                                        const std::string& lease) {
  return open(socket, "harpe.clock/1 lease " + lease);
}

Result<ClockChannel> ClockChannel::take(const std::filesystem::path& socket,
                                        const std::vector<int>& gpus, Seconds duration,
                                        const std::string& name) {
  std::string list;
  for (const int gpu : gpus) list += (list.empty() ? "" : ",") + std::to_string(gpu);
  return open(socket, "harpe.clock/1 take " + shortest(duration.value) + " " + list + " " + name);
}

std::uint32_t ClockChannel::set(std::size_t position, Megahertz clock) noexcept {
  ClockMemory& memory = *memories_[position];
  std::uint64_t before = memory.wanted.load(std::memory_order_relaxed);
  std::uint32_t sequence = 0;
  std::uint64_t wanted = 0;
  memory.cpu.store(static_cast<std::uint32_t>(::sched_getcpu()), std::memory_order_relaxed);
  do {
    sequence = static_cast<std::uint32_t>(before >> 32) + 1;
    if (sequence == 0) sequence = 1;
    wanted = std::uint64_t{sequence} << 32 | static_cast<std::uint32_t>(clock.value);
  } while (!memory.wanted.compare_exchange_weak(before, wanted));
  if (memory.doorbell.exchange(0) != 0) futex_wake(memory.doorbell);
  return sequence;
}

ClockChannel::Served ClockChannel::served(std::size_t position) const noexcept {
  const std::uint64_t word = memories_[position]->served.load(std::memory_order_acquire);
  return {static_cast<std::uint32_t>(word >> 32),
          static_cast<ClockOutcome>(static_cast<std::uint8_t>(word >> 24)),
          {static_cast<int>(word & 0xffffff)}};
}

std::uint32_t ClockChannel::wanted(std::size_t position) const noexcept {
  const std::uint64_t word = memories_[position]->wanted.load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(word >> 32);
}

std::uint32_t ClockChannel::refused(std::size_t position) const noexcept {
  return memories_[position]->refused.load(std::memory_order_relaxed);
}

bool ClockChannel::connected() const noexcept {
  char byte = 0;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

Status ClockChannel::renew(Seconds duration) {
  HARPE_TRY(send_text(socket_.get(), "renew " + shortest(duration.value)));
  auto message = HARPE_TRY(receive_message(socket_.get()));
  std::string_view text = message.text;
  if (!take_word(text, "renewed")) return unexpected(message.text);
  duration_ = Seconds{parse_number(text).value_or(0)};
  return ok_status();
}

Status ClockChannel::apply(const char* what, std::size_t position, const std::string& value) {
  const std::string gpu = std::to_string(gpus_[position]);
  HARPE_TRY(send_text(socket_.get(), std::string("set ") + what + " " + gpu + " " + value));
  auto message = HARPE_TRY(receive_message(socket_.get()));
  if (message.text == "set") return ok_status();
  std::string_view text = message.text;
  if (take_word(text, "refused")) return Error::of(ErrorCode::kRefused, std::string(text));
  return unexpected(message.text);
}

Status ClockChannel::set_memory_clock(std::size_t position, Megahertz clock) {
  return apply("memory_clock", position, std::to_string(clock.value));
}

Status ClockChannel::set_power_limit(std::size_t position, Watts limit) {
  return apply("power_limit", position, shortest(limit.value));
}

}  // namespace harpe::node
