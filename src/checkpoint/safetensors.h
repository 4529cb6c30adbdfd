// SPDX-License-Identifier: Apache-2.0
// The safetensors file format: 8 bytes of header length, a JSON header, the data. Little endian, contiguous.
// Reading maps the file; nothing in the header is trusted: shapes that overflow, offsets that overlap, lie outside or do not
// match dtype x shape, duplicate names, a header over 100 MB, over a million tensors, a truncated file and bytes after the
// last tensor are refused by name. Gaps between tensors are taken. Tensors of a dtype that nothing here computes with stand
// apart: a file may hold them, and whoever asks for one is told its dtype. Data may be unaligned for its dtype: copy_of (core/tensor.h) before
// reading it as numbers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "octet/status.hpp"

namespace octet::checkpoint {

// A file in memory, read-only, for as long as the object lives.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // These bytes will not be read again soon: the kernel may drop their pages.
  static void release(std::span<const std::byte> bytes);

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A tensor of another dtype than core/dtype.h's: one of the format's own (U32, F4) or one that is not known, of which the
// number of bytes is taken as it stands.
struct OtherTensor {
  std::string dtype;
  Dims dims;
  std::span<const std::byte> bytes;
};
using OtherTensors = std::map<std::string, OtherTensor, std::less<>>;

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  NamedViews tensors;     // data pointers into `file`, not aligned
  OtherTensors others;    // likewise
  std::string_view text;  // the length and the JSON as they stand in `file`
};

// Checks and reads a whole file's bytes; `where` begins every message.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file,
                                            std::string_view where);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return header_; }
  const NamedViews& tensors() const { return header_.tensors; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

// Where a file of this name is written: what its symbolic links lead to, or would lead to. A rename would put the file in a link's place.
std::filesystem::path written_path(const std::filesystem::path& path);

// Writes a file: to a temporary name beside written_path(path), then renamed, so that no half-written file is ever left. Data begins at
// a multiple of 64 bytes; tensors stand without gaps (readers elsewhere refuse gaps), widest elements first, then by name,
// so each is aligned to its elements.
Status save_safetensors(const std::filesystem::path& path, const NamedViews& tensors,
                        const std::map<std::string, std::string>& metadata = {});

// The same, a tensor at a time, for files larger than memory: declare all, then write each in the order declared. Whoever
// declares keeps them aligned: widest elements first, or sizes that are multiples of 64.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    Dtype dtype;
    Dims dims;
  };
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          const std::vector<Entry>& entries,
                                          const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();  // removes the temporary file unless finish() was called
  // The next bytes of the data, in order of the entries.
  Status write(std::span<const std::byte> bytes);
  // Other metadata in place of create's, values known only now; keys and lengths of values must be the same.
  Status set_metadata(const std::map<std::string, std::string>& metadata);
  // Length and JSON as they stand in the file.
  std::string header() const;
  Status finish();  // every byte was written; renames

 private:
  SafetensorsWriter();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octet::checkpoint
