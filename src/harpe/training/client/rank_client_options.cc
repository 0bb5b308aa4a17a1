#include "harpe/training/client/rank_client_options.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/training/wire/wire.h"

namespace harpe {
namespace {

constexpr double kLongest = 86400;

/// A reader of environment variables that collects diagnostics.
class Variables {
 public:
  Variables(const Environment& environment, Diagnostics& diagnostics)
      : environment_(environment), diagnostics_(diagnostics) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = environment_(name);
    if (value == nullptr || *value == 0) return std::nullopt;
    return value;
  }
  std::optional<int> integer(const char* name, int lowest) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto number = parse_integer(*value);
    if (!number || *number < lowest || *number > std::numeric_limits<int>::max()) {
      diagnostics_.add(std::string(name) + " is a whole number from " + std::to_string(lowest) +
                       ", not " + in_quotes(*value));
      return std::nullopt;
    }
    return static_cast<int>(*number);
  }
  bool flag(const char* name) const {
    const auto value = text(name);
    if (!value || *value == "0") return false;
    if (*value != "1") diagnostics_.add(std::string(name) + " is 0 or 1, not " + in_quotes(*value));
    return true;
  }
  std::optional<Seconds> seconds(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto number = parse_number(*value);
    if (!number || *number < 0 || *number > kLongest) {
      diagnostics_.add(std::string(name) + " is a number of seconds, not " + in_quotes(*value));
      return std::nullopt;
    }
    return Seconds{*number};
  }

 private:
  const Environment& environment_;
  Diagnostics& diagnostics_;
};

void add_all(Diagnostics& diagnostics, const Error& error) {
  for (const Diagnostic& diagnostic : error.diagnostics) diagnostics.add(diagnostic.text());
}

/// Reads the job from a file, or a plain schedule from three variables.
void complete_spec(JobSpec& spec, const Variables& variables, Diagnostics& diagnostics) {
  if (!spec.schedule.lists.empty()) return;
  if (const auto file = variables.text("HARPE_JOB_FILE")) {
    const auto text = read_file(*file);
    if (!text.ok()) return add_all(diagnostics, text.error());
    auto read = training::parse_job_spec(*text);
    if (!read.ok()) return add_all(diagnostics, read.error());
    spec = *std::move(read);
    return;
  }
  const auto name = variables.text("HARPE_SCHEDULE");
  if (!name) {
    diagnostics.add(
        "the job is not described: give a spec with its schedule, or HARPE_JOB_FILE, or "
        "HARPE_SCHEDULE, HARPE_STAGES and HARPE_MICRO_BATCHES");
    return;
  }
  spec.shape.stages = variables.integer("HARPE_STAGES", 1).value_or(spec.shape.stages);
  spec.shape.data = variables.integer("HARPE_DATA", 1).value_or(spec.shape.data);
  spec.shape.tensor = variables.integer("HARPE_TENSOR", 1).value_or(spec.shape.tensor);
  const auto chunks = variables.integer("HARPE_CHUNKS", 1);
  auto schedule = make_schedule(
      *name, {.stages = spec.shape.stages,
              .micro_batches = variables.integer("HARPE_MICRO_BATCHES", 1).value_or(1),
              .chunks = chunks.value_or(2)});
  if (!schedule.ok()) return add_all(diagnostics, schedule.error());
  if (chunks) {
    if (const auto why = wrong_chunks(*chunks, *schedule))
      diagnostics.add("HARPE_CHUNKS: " + *why + ": leave it away");
  }
  spec.schedule = *std::move(schedule);
  if (const auto latency = variables.seconds("HARPE_SWITCH_LATENCY_S")) {
    spec.switch_latency = *latency;
  }
}

/// Returns the coordinates of a rank by RANK. Frameworks number ranks in different orders: the
/// first of the three names varies fastest. Harpe's order is tensor,stage,data; Megatron's default
/// is tensor,data,stage.
std::optional<RankCoordinates> coordinates_of_rank(int rank, const JobShape& shape,
                                                   std::string_view order,
                                                   Diagnostics& diagnostics) {
  RankCoordinates coordinates;
  struct Part {
    std::string_view name;
    int size;
    int* into;
    bool used = false;
  };
  Part parts[] = {{"data", shape.data, &coordinates.data},
                  {"stage", shape.stages, &coordinates.stage},
                  {"tensor", shape.tensor, &coordinates.tensor}};
  int left = rank;
  std::string_view rest = order;
  for (int i = 0; i < 3; ++i) {
    const std::string_view word = trim(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(
        rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
    const auto part = std::ranges::find(parts, word, &Part::name);
    if (part == std::end(parts) || part->used) {
      diagnostics.add("HARPE_RANK_ORDER is data, stage and tensor in some order, not " +
                      in_quotes(order));
      return std::nullopt;
    }
    part->used = true;
    *part->into = left % part->size;
    left /= part->size;
  }
  if (left != 0 || rank < 0) {
    diagnostics.add("RANK is " + std::to_string(rank) + ", but the job has " +
                    std::to_string(shape.ranks()) + " ranks (data " + std::to_string(shape.data) +
                    " x stages " + std::to_string(shape.stages) + " x tensor " +
                    std::to_string(shape.tensor) +
                    "): more pipelines are given as data, or HARPE_DATA");
    return std::nullopt;
  }
  return coordinates;
}

void complete_coordinates(RankClientOptions& options, const Variables& variables,
                          Diagnostics& diagnostics) {
  if (options.coordinates) return;
  const auto data = variables.integer("HARPE_DATA_RANK", 0);
  const auto stage = variables.integer("HARPE_STAGE_RANK", 0);
  const auto tensor = variables.integer("HARPE_TENSOR_RANK", 0);
  if (data || stage || tensor) {
    options.coordinates = {data.value_or(0), stage.value_or(0), tensor.value_or(0)};
  } else if (const auto rank = variables.integer("RANK", 0)) {
    const std::string order = variables.text("HARPE_RANK_ORDER").value_or("tensor,stage,data");
    options.coordinates = coordinates_of_rank(*rank, options.spec.shape, order, diagnostics);
  } else if (options.spec.shape.ranks() == 1) {
    options.coordinates = RankCoordinates{};
  } else {
    diagnostics.add(
        "this rank's coordinates are missing: give them, or HARPE_DATA_RANK, "
        "HARPE_STAGE_RANK and HARPE_TENSOR_RANK, or RANK");
  }
}

}  // namespace

Environment process_environment() {
  return [](const char* name) { return std::getenv(name); };
}

Result<RankClientOptions> complete(RankClientOptions options, const Environment& environment) {
  Diagnostics diagnostics;
  const Variables variables(environment, diagnostics);
  const auto fill = [&](std::string& into, const char* name) {
    if (into.empty()) into = variables.text(name).value_or("");
  };
  fill(options.server, "HARPE_SERVER");
  if (options.server.empty()) return options;
  fill(options.job, "HARPE_JOB");
  fill(options.run, "HARPE_RUN");
  if (options.token_file.empty() && options.token.empty()) {
    options.token_file = variables.text("HARPE_TOKEN_FILE").value_or("");
  }
  fill(options.token, "HARPE_TOKEN");
  options.take_over = options.take_over || variables.flag("HARPE_TAKE_OVER");
  options.trusted_network = options.trusted_network || variables.flag("HARPE_INSECURE");
  if (options.ca_file.empty()) options.ca_file = variables.text("HARPE_CA_FILE").value_or("");
  if (!options.clock_socket) {
    const char* socket = environment("HARPE_CLOCK_SOCKET");
    options.clock_socket = socket != nullptr ? socket : "/run/harpe/clock.sock";
  }
  if (!options.gpu) options.gpu = variables.integer("HARPE_GPU", 0);
  if (!options.look_ahead) options.look_ahead = variables.seconds("HARPE_LOOK_AHEAD_S");

  if (options.job.empty()) {
    diagnostics.add("the job has no id: give one, or HARPE_JOB");
  } else if (!is_job_id(options.job)) {
    diagnostics.add(
        "a job's id has up to 128 letters, digits and any of ._-+, and is neither . nor .., not " +
        in_quotes(options.job));
  }
  complete_spec(options.spec, variables, diagnostics);
  const bool is_observed = variables.flag("HARPE_OBSERVE") || options.spec.observe;
  options.spec.observe = options.observe.value_or(is_observed);
  // Without the agent's socket the client cannot request a clock.
  if (options.spec.observe) options.clock_socket.emplace();
  if (diagnostics.empty()) {
    if (options.spec.name.empty()) options.spec.name = options.job;
    if (const Status valid = validate(options.spec); !valid.ok())
      add_all(diagnostics, valid.error());
  }
  if (diagnostics.empty()) complete_coordinates(options, variables, diagnostics);
  if (diagnostics.empty() && !options.spec.shape.holds(*options.coordinates)) {
    const JobShape& shape = options.spec.shape;
    diagnostics.add("data " + std::to_string(options.coordinates->data) + ", stage " +
                    std::to_string(options.coordinates->stage) + ", tensor " +
                    std::to_string(options.coordinates->tensor) + " is no rank of a job of " +
                    std::to_string(shape.data) + " x " + std::to_string(shape.stages) + " x " +
                    std::to_string(shape.tensor));
  }
  if (!(options.lease.value >= 1 && options.lease.value <= kLongest)) {
    diagnostics.add("a lease lasts from one second to a day");
  }
  if (!(options.patience.value >= 0 && options.patience.value <= kLongest)) {
    diagnostics.add("patience is from zero seconds to a day");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return options;
}

Result<RankClientOptions> parse_rank_client_options(std::string_view text) {
  auto document = HARPE_TRY(parse_json(text, "options"));
  if (document.type != JsonValue::Type::kObject) {
    return Error::invalid("options are a JSON object");
  }
  Diagnostics diagnostics("options");
  RankClientOptions options;
  Fields fields(document, "the options", diagnostics);
  options.server = fields.text("server").value_or("");
  options.token = fields.text("token").value_or("");
  options.token_file = fields.text("token_file").value_or("");
  options.ca_file = fields.text("ca_file").value_or("");
  options.job = fields.text("job").value_or("");
  options.run = fields.text("run").value_or("");
  options.take_over = fields.boolean("take_over").value_or(false);
  options.observe = fields.boolean("observe");
  if (const auto socket = fields.text("clock_socket")) options.clock_socket = *socket;
  constexpr int kMost = std::numeric_limits<int>::max();
  const auto data = fields.integer("data", 0, kMost);
  const auto stage = fields.integer("stage", 0, kMost);
  const auto tensor = fields.integer("tensor", 0, kMost);
  if (data || stage || tensor) {
    options.coordinates = {static_cast<int>(data.value_or(0)), static_cast<int>(stage.value_or(0)),
                           static_cast<int>(tensor.value_or(0))};
  }
  if (const auto gpu = fields.integer("gpu", 0, kMost)) options.gpu = static_cast<int>(*gpu);
  if (const auto lease = fields.number("lease_s", 1, kLongest)) options.lease = {*lease};
  if (const auto patience = fields.number("patience_s", 0, kLongest)) {
    options.patience = {*patience};
  }
  if (const auto ahead = fields.number("look_ahead_s", 0, kLongest)) options.look_ahead = {*ahead};
  if (const JsonValue* spec = fields.object("spec")) {
    options.spec = HARPE_TRY(training::read_job_spec(*spec, "options"));
  }
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return options;
}

}  // namespace harpe
