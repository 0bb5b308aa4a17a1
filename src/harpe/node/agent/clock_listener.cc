#include "harpe/node/agent/clock_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "harpe/base/text.h"
#include "harpe/node/agent/process_watch.h"

namespace harpe::node {
namespace {

constexpr std::size_t kLongestMessage = 1024;
constexpr std::size_t kLongestName = 128;
constexpr std::size_t kMostGpus = 1024;
constexpr double kHighestValue = 1e6;  // MHz, W
constexpr Seconds kPauseWithoutFiles{0.05};

Error failure(const std::filesystem::path& path, const char* what, int error) {
  return Error::io(path.string(),
                   std::string(what) + ": " + std::generic_category().message(error));
}

/// Returns the text up to the next space, and removes both from the front.
std::string_view next_word(std::string_view& text) {
  const std::size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  return word;
}

std::optional<std::vector<int>> parse_gpus(std::string_view text) {
  std::vector<int> gpus;
  while (!text.empty() && gpus.size() < kMostGpus) {
    const std::size_t comma = text.find(',');
    const auto gpu = parse_integer(text.substr(0, comma));
    if (!gpu || *gpu < 0 || *gpu > 1 << 20) return std::nullopt;
    gpus.push_back(static_cast<int>(*gpu));
    if (comma == std::string_view::npos) return gpus;
    text.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

std::optional<Seconds> parse_duration(std::string_view text) {
  const auto seconds = parse_number(text);
  if (!seconds || *seconds <= 0 || *seconds > 1e9) return std::nullopt;
  return Seconds{*seconds};
}

/// Parses "memory_clock 0 1215" or "power_limit 0 250" (GPU, value). The value 0 restores the
/// setting before the lease.
Result<ClockRequest> parse_setting(std::string_view text) {
  using Kind = Setting::Kind;
  const std::string_view what = next_word(text);
  const auto gpus = parse_gpus(next_word(text));
  const auto value = parse_number(text);
  const bool is_clock = what == "memory_clock" && parse_integer(text);
  if ((!is_clock && what != "power_limit") || !gpus || gpus->size() != 1 || !value || *value < 0 ||
      *value > kHighestValue) {
    return Error::invalid("expected 'set memory_clock GPU MHZ' or 'set power_limit GPU WATTS'");
  }
  ClockRequest request;
  request.kind = ClockRequest::Kind::kSet;
  request.gpus = *gpus;
  request.setting.domain = ClockDomain::kMemory;
  if (is_clock) {
    const Megahertz clock{static_cast<int>(*value)};
    request.setting.kind = clock.value == 0 ? Kind::kResetClocks : Kind::kLockClocks;
    request.setting.clocks = {clock, clock};
  } else {
    request.setting.kind = *value == 0 ? Kind::kResetPowerLimit : Kind::kPowerLimit;
    request.setting.limit = Watts{*value};
  }
  return request;
}

Status send_message(int socket, const std::string& text, int descriptor = -1) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return ok_status();
  return Error::of(ErrorCode::kUnavailable,
                   "cannot answer: " + std::generic_category().message(errno));
}

/// Sends a refused peer the reason as its last message. Before that, ends receiving and reads all
/// messages: if the socket were closed with unread data, the peer would see a reset instead.
void refuse(int socket, const std::string& reason) {
  ::shutdown(socket, SHUT_RD);
  std::array<char, 1> unread{};
  while (::recv(socket, unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
  }
  (void)send_message(socket, "error " + reason);
}

/// Binds the address. Replaces a socket on which no process listens.
Status bind_to(int socket, const sockaddr_un& address, const std::filesystem::path& path) {
  const auto* place = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket, place, sizeof address) == 0) return ok_status();
  if (errno != EADDRINUSE) return failure(path, "cannot listen", errno);
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    return Error{ErrorCode::kConflict, {{.file = path.string(), .message = "is not a socket"}}};
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), place, sizeof address) == 0 || errno != ECONNREFUSED) {
    return Error{ErrorCode::kConflict,
                 {{.file = path.string(), .message = "another agent listens on this socket"}}};
  }
  ::unlink(path.c_str());
  if (::bind(socket, place, sizeof address) == 0) return ok_status();
  return failure(path, "cannot listen", errno);
}

}  // namespace

Result<ClockRequest> parse_clock_request(std::string_view text) {
  const auto wrong = [](const char* what) { return Error::invalid(what); };
  if (text.size() > kLongestMessage) return wrong("the message is too long");
  ClockRequest request;
  std::string_view word = next_word(text);
  if (word == "renew") {
    request.kind = ClockRequest::Kind::kRenew;
    const auto duration = parse_duration(text);
    if (!duration) return wrong("expected 'renew SECONDS'");
    request.duration = *duration;
    return request;
  }
  if (word == "set") return parse_setting(text);
  if (word != "harpe.clock/1") return wrong("this agent supports only harpe.clock/1");
  word = next_word(text);
  if (word == "lease") {
    if (text.empty()) return wrong("expected 'lease ID'");
    request.lease = std::string(text);
    return request;
  }
  if (word != "take") return wrong("expected 'lease ID' or 'take SECONDS GPU,GPU NAME'");
  request.kind = ClockRequest::Kind::kTake;
  const auto duration = parse_duration(next_word(text));
  const auto gpus = parse_gpus(next_word(text));
  if (!duration || !gpus) return wrong("expected 'take SECONDS GPU,GPU NAME'");
  request.duration = *duration;
  request.gpus = *gpus;
  request.name = std::string(text.substr(0, kLongestName));
  std::ranges::replace_if(request.name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return request;
}

Result<std::unique_ptr<ClockListener>> ClockListener::open(net::ServerLoop& loop,
                                                           const std::filesystem::path& path,
                                                           unsigned mode, Leases leases,
                                                           Seconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) {
    return Error::invalid("the path of the clock socket is too long: " + name);
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  std::unique_ptr<ClockListener> listener(new ClockListener(loop, std::move(leases), patience));
  listener->socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int socket = listener->socket_.get();
  if (socket < 0) return failure(path, "cannot create a socket", errno);
  HARPE_TRY(bind_to(socket, address, path));
  listener->path_ = path;
  constexpr int kBacklog = 128;
  if (::chmod(path.c_str(), mode) != 0 || ::listen(socket, kBacklog) != 0) {
    return failure(path, "cannot listen", errno);
  }
  listener->listen();
  return listener;
}

ClockListener::~ClockListener() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void ClockListener::listen() {
  watch_ = loop_.watch(socket_.get(), [this] { accept(); });
}

void ClockListener::accept() {
  UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    // Out of files or memory: waiting clients are accepted when others have left. Until then the
    // loop would report them without end.
    watch_.reset();
    loop_.after(kPauseWithoutFiles, [this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) listen();
    });
    return;
  }
  auto peer = net::peer_of_socket(socket.get());
  if (!peer.ok()) return refuse(socket.get(), peer.error().text());
  if (const std::string reason = refusal(*peer); !reason.empty())
    return refuse(socket.get(), reason);
  add(std::move(socket), *std::move(peer));
}

/// Returns the reason why this peer gets no connection; empty if it gets one.
std::string ClockListener::refusal(const net::Peer& peer) const {
  if (!leases_.may_set_clocks(peer))
    return "the policy does not allow you to set the clocks of any GPU";
  const auto of_same_user = [&](const auto& item) { return item.second.peer.uid == peer.uid; };
  const bool root = peer.uid == 0;
  const bool full = connections_.size() >= kMostConnections - (root ? 0 : kForRoot);
  const bool own = std::ranges::count_if(connections_, of_same_user) >= kMostOfOneUser;
  return full || (own && !root) ? "too many clock channels are open" : "";
}

void ClockListener::add(UniqueFd socket, net::Peer peer) {
  const int number = socket.get();
  const std::uint64_t which = ++last_number_;
  connections_.emplace(number, Connection{std::move(socket), std::move(peer), "", false, which,
                                          loop_.watch(number, [this, number] { hear(number); })});
  loop_.after(patience_, [this, number, which, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto found = connections_.find(number);
    if (found == connections_.end() || found->second.number != which) return;
    if (found->second.lease.empty()) close(number);
  });
}

void ClockListener::close(int socket) {
  const auto found = connections_.find(socket);
  if (found == connections_.end()) return;
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  if (connection.took_lease) leases_.end(connection.lease);
}

void ClockListener::hear(int socket) {
  std::array<char, kLongestMessage + 1> text{};
  // Descriptors that a client sends are not received, so the kernel closes them.
  const ssize_t size = ::recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return close(socket);
  Connection& connection = connections_.at(socket);
  const auto request =
      parse_clock_request(std::string_view(text.data(), static_cast<std::size_t>(size)));
  const Status status = request.ok() ? respond(connection, *request) : Status(request.error());
  if (status.ok()) return;
  refuse(socket, status.error().text());
  close(socket);
}

Status ClockListener::respond(Connection& connection, const ClockRequest& request) {
  if (request.kind == ClockRequest::Kind::kRenew) {
    if (connection.lease.empty()) return Error::invalid("no lease was requested yet");
    const auto lease =
        HARPE_TRY(leases_.renew(connection.peer, connection.lease, request.duration));
    return send_message(connection.socket.get(), "renewed " + shortest(lease.expires_in.value));
  }
  if (request.kind == ClockRequest::Kind::kSet) return apply(connection, request);
  if (!connection.lease.empty()) return Error::invalid("this connection already has its channels");
  const bool takes = request.kind == ClockRequest::Kind::kTake;
  LeaseRequest lease_request;
  lease_request.gpus = request.gpus;
  lease_request.duration = request.duration;
  lease_request.name = request.name;
  const auto lease = HARPE_TRY(takes ? leases_.take(connection.peer, lease_request)
                                     : leases_.find(connection.peer, request.lease));
  connection.lease = lease.id;
  connection.took_lease = takes;
  return open_channels(connection, lease);
}

Status ClockListener::apply(const Connection& connection, const ClockRequest& request) {
  if (connection.lease.empty()) return Error::invalid("no lease was requested yet");
  // The thread that owns the GPU knows the result; the loop's thread sends it.
  const auto tell = [this, socket = connection.socket.get(), which = connection.number,
                     alive = std::weak_ptr(alive_)](const std::string& text) {
    if (alive.expired()) return;
    const auto found = connections_.find(socket);
    if (found == connections_.end() || found->second.number != which) return;
    (void)send_message(socket, text);
  };
  leases_.apply(connection.peer, connection.lease, request.gpus.front(), request.setting,
                [&loop = loop_, tell](const Result<Applied>& applied) {
                  const std::string text =
                      applied.ok() ? "set" : "refused " + applied.error().text();
                  loop.post([tell, text] { tell(text); });
                });
  return ok_status();
}

Status ClockListener::open_channels(Connection& connection, const Lease& lease) {
  const int socket = connection.socket.get();
  for (const int gpu : lease.gpus) {
    auto slot = HARPE_TRY(leases_.attach(connection.peer, lease.id, gpu));
    const UniqueFd memory = slot->take_memory();
    HARPE_TRY(send_message(socket, "gpu " + std::to_string(gpu), memory.get()));
  }
  return send_message(socket, "ready " + lease.id + " " + shortest(lease.expires_in.value));
}

}  // namespace harpe::node
