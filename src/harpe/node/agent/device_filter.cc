#include "harpe/node/agent/device_filter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"

namespace harpe::node {
namespace {

// --- The list of cgroup v1.

/// Returns true if `text` ("195" or "*") matches the number. Clears `right` if it is malformed.
bool number_fits(std::string_view text, std::uint32_t number, bool& right) {
  if (text == "*") return true;
  const auto value = parse_integer(text);
  right = right && value.has_value() && *value >= 0;
  return value == number;
}

/// Returns true if a line such as "c 195:0 rwm" allows reading and writing of the device. Clears
/// `right` if the line is malformed.
bool line_allows(std::string_view line, DeviceNumber device, bool& right) {
  const std::size_t first = line.find(' '), last = line.rfind(' '), colon = line.find(':');
  right = right && first == 1 && last > first && last != std::string_view::npos && colon > first &&
          colon < last;
  if (!right) return false;
  const std::string_view major = line.substr(2, colon - 2);
  const std::string_view minor = line.substr(colon + 1, last - colon - 1);
  const std::string_view access = line.substr(last + 1);
  right = std::string_view("abc").find(line[0]) != std::string_view::npos;
  const bool major_fits = number_fits(major, device.major, right);
  const bool minor_fits = number_fits(minor, device.minor, right);
  return line[0] != 'b' && major_fits && minor_fits && access.find('r') != std::string_view::npos &&
         access.find('w') != std::string_view::npos;
}

// --- Programs of cgroup v2.

/// A register with a number, or with the address of the program's context plus a number.
struct Register {
  std::uint64_t value = 0;
  bool is_context = false;
  bool is_set = false;
};

/// Returns the result of an operation; nullopt if no program of a cgroup needs the operation.
std::optional<std::uint64_t> result_of(unsigned operation, std::uint64_t value, std::uint64_t by,
                                       unsigned shift) {
  if (operation == BPF_ADD) return value + by;
  if (operation == BPF_SUB) return value - by;
  if (operation == BPF_AND) return value & by;
  if (operation == BPF_OR) return value | by;
  if (operation == BPF_XOR) return value ^ by;
  if (operation == BPF_LSH) return value << shift;
  if (operation == BPF_RSH) return value >> shift;
  return std::nullopt;
}

/// Returns true if a jump is taken; nullopt if no program of a cgroup needs the condition.
std::optional<bool> compared(unsigned operation, std::uint64_t a, std::uint64_t b) {
  if (operation == BPF_JEQ) return a == b;
  if (operation == BPF_JNE) return a != b;
  if (operation == BPF_JGT) return a > b;
  if (operation == BPF_JGE) return a >= b;
  if (operation == BPF_JLT) return a < b;
  if (operation == BPF_JLE) return a <= b;
  if (operation == BPF_JSET) return (a & b) != 0;
  return std::nullopt;
}

/// Interpreter of one program. Stops without a verdict at any instruction not known to be valid.
class DeviceProgram {
 public:
  DeviceProgram(std::span<const bpf_insn> program, DeviceNumber device)
      : program_(program),
        context_{std::uint32_t{BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE} << 16 |
                     std::uint32_t{BPF_DEVCG_DEV_CHAR},
                 device.major, device.minor} {
    registers_[BPF_REG_1] = {0, true, true};
  }

  std::optional<bool> run() {
    // Without loops no program takes more steps than it has instructions.
    for (std::size_t steps = 0; steps < program_.size() && at_ < program_.size(); ++steps) {
      const bpf_insn& step = program_[at_++];
      if (step.code == (BPF_JMP | BPF_EXIT)) {
        const Register& response = registers_[BPF_REG_0];
        if (!response.is_set || response.is_context) return std::nullopt;
        return static_cast<std::uint32_t>(response.value) != 0;
      }
      if (!take(step)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool take(const bpf_insn& step) {
    if (step.dst_reg > BPF_REG_9 || step.src_reg > BPF_REG_9) return false;
    switch (BPF_CLASS(step.code)) {
      case BPF_LDX:
        return load(step);
      case BPF_LD:
        return load_constant(step);
      case BPF_ALU:
      case BPF_ALU64:
        return calculate(step);
      case BPF_JMP:
      case BPF_JMP32:
        return jump(step);
      default:
        return false;
    }
  }

  /// Loads a word, half a word or a byte of the program's context.
  bool load(const bpf_insn& step) {
    const Register& from = registers_[step.src_reg];
    if (!from.is_context || BPF_MODE(step.code) != BPF_MEM) return false;
    const std::size_t size = BPF_SIZE(step.code) == BPF_W   ? 4
                             : BPF_SIZE(step.code) == BPF_H ? 2
                             : BPF_SIZE(step.code) == BPF_B ? 1
                                                            : 0;
    const std::uint64_t offset = from.value + static_cast<std::uint64_t>(std::int64_t{step.off});
    if (size == 0 || offset > sizeof context_ - size) return false;
    std::uint64_t value = 0;  // little-endian, like all machines with these GPUs
    std::memcpy(&value, reinterpret_cast<const char*>(context_.data()) + offset, size);
    registers_[step.dst_reg] = {value, false, true};
    return true;
  }

  /// Loads a 64-bit constant from two instructions.
  bool load_constant(const bpf_insn& step) {
    if (step.code != (BPF_LD | BPF_IMM | BPF_DW) || step.src_reg != 0) return false;
    if (at_ >= program_.size()) return false;
    const std::uint64_t low = static_cast<std::uint32_t>(step.imm);
    const std::uint64_t high = static_cast<std::uint32_t>(program_[at_++].imm);
    registers_[step.dst_reg] = {high << 32 | low, false, true};
    return true;
  }

  /// Returns the second operand, extended to 64 bits; nullopt if its register is not set.
  std::optional<Register> operand(const bpf_insn& step) const {
    if (BPF_SRC(step.code) == BPF_X) {
      const Register& from = registers_[step.src_reg];
      return from.is_set ? std::optional(from) : std::nullopt;
    }
    return Register{static_cast<std::uint64_t>(std::int64_t{step.imm}), false, true};
  }

  bool calculate(const bpf_insn& step) {
    const auto by = operand(step);
    if (!by || step.off != 0) return false;
    Register& to = registers_[step.dst_reg];
    const bool wide = BPF_CLASS(step.code) == BPF_ALU64;
    if (BPF_OP(step.code) == BPF_MOV) {
      if (by->is_context && !wide) return false;
      to = *by;
    } else {
      const bool address = to.is_context && wide && BPF_OP(step.code) == BPF_ADD;
      if (!to.is_set || by->is_context || (to.is_context && !address)) return false;
      const unsigned shift = static_cast<unsigned>(by->value) & (wide ? 63U : 31U);
      const std::uint64_t value = wide ? to.value : static_cast<std::uint32_t>(to.value);
      const auto result = result_of(BPF_OP(step.code), value, by->value, shift);
      if (!result) return false;
      to.value = *result;
    }
    if (!wide) to.value = static_cast<std::uint32_t>(to.value);
    return true;
  }

  bool jump(const bpf_insn& step) {
    const auto by = operand(step);
    const Register& one = registers_[step.dst_reg];
    const bool always = BPF_OP(step.code) == BPF_JA && BPF_CLASS(step.code) == BPF_JMP;
    if (!always && (!by || !one.is_set || one.is_context || by->is_context)) return false;
    const bool wide = BPF_CLASS(step.code) == BPF_JMP;
    const auto narrow = [wide](std::uint64_t value) {
      return wide ? value : static_cast<std::uint32_t>(value);
    };
    const std::uint64_t a = narrow(one.value), b = by ? narrow(by->value) : 0;
    const auto taken = always ? std::optional(true) : compared(BPF_OP(step.code), a, b);
    if (!taken) return false;
    if (!*taken) return true;
    if (step.off < 0) return false;  // a loop
    at_ += static_cast<std::size_t>(step.off);
    return true;
  }

  std::span<const bpf_insn> program_;
  std::array<std::uint32_t, 3> context_;  // bpf_cgroup_dev_ctx
  std::array<Register, BPF_REG_10> registers_{};
  std::size_t at_ = 0;
};

long bpf(bpf_cmd command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

Error bpf_failure(const char* what) {
  return Error::of(ErrorCode::kUnavailable,
                   std::string(what) + ": " + std::generic_category().message(errno));
}

Result<std::vector<bpf_insn>> instructions_of(std::uint32_t id) {
  bpf_attr attributes{};
  attributes.prog_id = id;
  const UniqueFd program(static_cast<int>(bpf(BPF_PROG_GET_FD_BY_ID, attributes)));
  if (!program) return bpf_failure("cannot open a program of the cgroup");
  std::vector<bpf_insn> instructions;
  // The first turn reads the length, the second the instructions.
  for (int turn = 0; turn < 2; ++turn) {
    bpf_prog_info info{};
    info.xlated_prog_len = static_cast<std::uint32_t>(instructions.size() * sizeof(bpf_insn));
    info.xlated_prog_insns = reinterpret_cast<std::uintptr_t>(instructions.data());
    attributes = {};
    attributes.info.bpf_fd = static_cast<std::uint32_t>(program.get());
    attributes.info.info_len = sizeof info;
    attributes.info.info = reinterpret_cast<std::uintptr_t>(&info);
    if (bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0) {
      return bpf_failure("cannot read a program of the cgroup");
    }
    if (turn == 0) instructions.resize(info.xlated_prog_len / sizeof(bpf_insn));
  }
  return instructions;
}

}  // namespace

std::optional<bool> list_allows(std::string_view devices_list, DeviceNumber device) {
  bool allowed = false, right = true;
  while (!devices_list.empty() && right) {
    const std::size_t end = std::min(devices_list.find('\n'), devices_list.size());
    if (end > 0) allowed |= line_allows(devices_list.substr(0, end), device, right);
    devices_list.remove_prefix(std::min(end + 1, devices_list.size()));
  }
  return right ? std::optional(allowed) : std::nullopt;
}

std::optional<bool> program_allows(std::span<const bpf_insn> program, DeviceNumber device) {
  return DeviceProgram(program, device).run();
}

Result<bool> programs_allow(int cgroup, DeviceNumber device) {
  std::array<std::uint32_t, 64> ids{};  // the kernel's limit per cgroup
  bpf_attr attributes{};
  attributes.query.target_fd = static_cast<std::uint32_t>(cgroup);
  attributes.query.attach_type = BPF_CGROUP_DEVICE;
  attributes.query.query_flags = BPF_F_QUERY_EFFECTIVE;
  attributes.query.prog_ids = reinterpret_cast<std::uintptr_t>(ids.data());
  attributes.query.prog_cnt = ids.size();
  if (bpf(BPF_PROG_QUERY, attributes) != 0) {
    return bpf_failure("cannot read which devices the cgroup may use");
  }
  for (std::uint32_t i = 0; i < attributes.query.prog_cnt && i < ids.size(); ++i) {
    const auto program = HARPE_TRY(instructions_of(ids[i]));
    const auto allowed = program_allows(program, device);
    if (!allowed) {
      return Error::of(ErrorCode::kNotSupported,
                       "a program of the cgroup does more than compare device numbers");
    }
    if (!*allowed) return false;
  }
  return true;
}

}  // namespace harpe::node
