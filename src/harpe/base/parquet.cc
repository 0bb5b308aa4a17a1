#include "harpe/base/parquet.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "harpe/base/check.h"

namespace harpe {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::size_t kMostRows = 200'000'000;  // the size of a page is a signed 32-bit number

/// Writer of Thrift's compact protocol, limited to the metadata of a file. Fields of a struct must
/// be written by rising number.
class Thrift {
 public:
  void integer(int field, std::int64_t value, bool is_long = false) {
    head(field, is_long ? kLong : kInteger);
    varint(zigzag(value));
  }
  void text(int field, std::string_view value) {
    head(field, kBinary);
    bytes(value);
  }
  void begin_struct(int field) {
    head(field, kStruct);
    begin_element();
  }
  void begin_integers(int field, std::size_t size) { begin_list(field, kInteger, size); }
  void begin_texts(int field, std::size_t size) { begin_list(field, kBinary, size); }
  void begin_structs(int field, std::size_t size) { begin_list(field, kStruct, size); }

  // Elements of the newest list:
  void element(std::int64_t value) { varint(zigzag(value)); }
  void element(std::string_view value) { bytes(value); }
  void begin_element() {
    outer_.push_back(last_);
    last_ = 0;
  }
  /// Ends a struct that is an element or a field.
  void end_struct() {
    out_ += '\0';
    last_ = outer_.back();
    outer_.pop_back();
  }

  /// Ends the outermost struct.
  std::string take() {
    out_ += '\0';
    return std::move(out_);
  }

 private:
  enum Type : unsigned char { kInteger = 5, kLong = 6, kBinary = 8, kList = 9, kStruct = 12 };

  static std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  }
  void byte(unsigned value) { out_ += static_cast<char>(value); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<unsigned>(value & 0x7f) | 0x80U);
    byte(static_cast<unsigned>(value));
  }
  void bytes(std::string_view value) {
    varint(value.size());
    out_ += value;
  }
  /// Writes the number of a field as the difference to the field before, which must be below 16.
  void head(int field, Type type) {
    byte((static_cast<unsigned>(field - last_) << 4) | type);
    last_ = field;
  }
  void begin_list(int field, Type type, std::size_t size) {
    constexpr std::size_t kShort = 15;
    head(field, kList);
    if (size < kShort) return byte((static_cast<unsigned>(size) << 4) | type);
    byte(0xf0U | type);
    varint(size);
  }

  std::string out_;
  int last_ = 0;  ///< number of the newest field of the innermost struct
  std::vector<int> outer_;
};

// Values of enumerations in the format's parquet.thrift.
constexpr int kDouble = 5, kRequired = 0, kPlain = 0, kRle = 3, kUncompressed = 0, kDataPage = 0;

std::string page_head(std::size_t rows) {
  const auto size = static_cast<std::int64_t>(rows * sizeof(double));
  Thrift page;
  page.integer(1, kDataPage);
  page.integer(2, size);  // uncompressed
  page.integer(3, size);  // compressed
  page.begin_struct(5);   // the data page's own head
  page.integer(1, static_cast<std::int64_t>(rows));
  page.integer(2, kPlain);
  page.integer(3, kRle);  // of levels, which required values do not have
  page.integer(4, kRle);
  page.end_struct();
  return page.take();
}

void append_values(std::span<const double> values, std::string& file) {
  static_assert(std::endian::native == std::endian::little, "the format's order of bytes");
  const std::size_t before = file.size();
  file.resize(before + values.size_bytes());
  if (!values.empty()) std::memcpy(file.data() + before, values.data(), values.size_bytes());
}

/// Position and size of the page of a column in the file, bytes.
struct Chunk {
  std::int64_t begin = 0, size = 0;
};

void write_schema(const std::vector<ParquetColumn>& columns, Thrift& footer) {
  footer.begin_structs(2, columns.size() + 1);
  footer.begin_element();
  footer.text(4, "table");
  footer.integer(5, static_cast<std::int64_t>(columns.size()));
  footer.end_struct();
  for (const ParquetColumn& column : columns) {
    footer.begin_element();
    footer.integer(1, kDouble);
    footer.integer(3, kRequired);
    footer.text(4, column.name);
    footer.end_struct();
  }
}

void write_chunk(const ParquetColumn& column, const Chunk& chunk, Thrift& footer) {
  footer.begin_element();
  footer.integer(2, chunk.begin, true);
  footer.begin_struct(3);
  footer.integer(1, kDouble);
  footer.begin_integers(2, 1);
  footer.element(kPlain);
  footer.begin_texts(3, 1);
  footer.element(column.name);
  footer.integer(4, kUncompressed);
  footer.integer(5, static_cast<std::int64_t>(column.values.size()), true);
  footer.integer(6, chunk.size, true);
  footer.integer(7, chunk.size, true);
  footer.integer(9, chunk.begin, true);
  footer.end_struct();
  footer.end_struct();
}

std::string footer_of(const std::vector<ParquetColumn>& columns, const std::vector<Chunk>& chunks) {
  const auto rows = static_cast<std::int64_t>(columns.front().values.size());
  std::int64_t size = 0;
  for (const Chunk& chunk : chunks) size += chunk.size;
  Thrift footer;
  footer.integer(1, 1);  // version of the format
  write_schema(columns, footer);
  footer.integer(3, rows, true);
  footer.begin_structs(4, 1);
  footer.begin_element();
  footer.begin_structs(1, columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) write_chunk(columns[i], chunks[i], footer);
  footer.integer(2, size, true);
  footer.integer(3, rows, true);
  footer.end_struct();
  footer.text(6, "harpe");
  return footer.take();
}

}  // namespace

std::string parquet_table(const std::vector<ParquetColumn>& columns) {
  HARPE_CHECK(!columns.empty(), "a table has columns");
  const std::size_t rows = columns.front().values.size();
  HARPE_CHECK(rows <= kMostRows, "a page is not too long");
  std::string file(kMagic);
  std::vector<Chunk> chunks;
  for (const ParquetColumn& column : columns) {
    HARPE_CHECK(column.values.size() == rows, "columns of a table are of one length");
    Chunk chunk{.begin = static_cast<std::int64_t>(file.size())};
    file += page_head(rows);
    append_values(column.values, file);
    chunk.size = static_cast<std::int64_t>(file.size()) - chunk.begin;
    chunks.push_back(chunk);
  }
  const std::string footer = footer_of(columns, chunks);
  file += footer;
  for (std::size_t shift = 0; shift < 32; shift += 8)
    file += static_cast<char>((footer.size() >> shift) & 0xff);
  return file += kMagic;
}

}  // namespace harpe
