#include "harpe/command/replay_cli/trace_files.h"

#include "harpe/command/input/input_file.h"

namespace harpe {

std::filesystem::path train_file(const std::filesystem::path& directory) {
  return plain_or_gz(directory / "summary_train.csv");
}

std::filesystem::path power_file(const std::filesystem::path& directory, const std::string& gpu) {
  return plain_or_gz(directory / ("summary_power_" + gpu + ".csv"));
}

Result<Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu) {
  const std::filesystem::path train = train_file(directory);
  const std::filesystem::path power = power_file(directory, gpu);
  Traces traces;
  const std::string train_text = HARPE_TRY(read_input_file(train));
  const std::string power_text = HARPE_TRY(read_input_file(power));
  traces.train = HARPE_TRY(parse_train_rows(train_text, train.string()));
  traces.power = HARPE_TRY(parse_power_rows(power_text, power.string()));
  return traces;
}

}  // namespace harpe
