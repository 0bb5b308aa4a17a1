#pragma once
/// \file
/// A table of numbers as an Apache Parquet file, for pandas, Polars, DuckDB and others.
///
///   const std::string file = harpe::parquet_table({{"time_s", times}, {"job_w", watts}});
///
/// The file has one row group, and each column has one uncompressed page of required doubles: a
/// form that every reader of the format supports (https://parquet.apache.org/docs/file-format).
/// Debian 12 has no library that writes it.

#include <span>
#include <string>
#include <vector>

namespace harpe {

struct ParquetColumn {
  std::string name;
  std::span<const double> values;
};

/// Returns the bytes of the file.
/// \pre  there is a column; all have the same number of values, at most 200 million
std::string parquet_table(const std::vector<ParquetColumn>& columns);

}  // namespace harpe
