// SPDX-License-Identifier: Apache-2.0
// save_safetensors and SafetensorsWriter of safetensors.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "checkpoint/safetensors.h"
#include "checkpoint/unfinished_file.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

constexpr size_t kDataAlignment = 64;
constexpr const char* kMetadataKey = "__metadata__";

// Length and header, padded with spaces so that the data that follow are aligned.
std::string header_bytes(const std::vector<SafetensorsWriter::Entry>& entries,
                         const Metadata& metadata) {
  nlohmann::json root = nlohmann::json::object();
  if (!metadata.empty()) root[kMetadataKey] = metadata;
  size_t at = 0;
  for (const auto& e : entries) {
    const size_t end = at + TensorView{e.dtype, e.dims}.num_bytes();
    root[e.name] = {{"dtype", dtype_name(e.dtype)}, {"shape", e.dims}, {"data_offsets", {at, end}}};
    at = end;
  }
  // File names in the metadata need not be UTF-8: such bytes are replaced.
  const std::string text = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const uint64_t begin = (8 + text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  const uint64_t length = begin - 8;
  std::string bytes(begin, ' ');
  std::memcpy(bytes.data(), &length, 8);
  text.copy(bytes.data() + 8, text.size());
  return bytes;
}

}  // namespace

struct SafetensorsWriter::Impl {
  std::filesystem::path path, temporary;
  UnfinishedFile unfinished;  // `temporary`
  std::vector<Entry> entries;
  Metadata metadata;
  size_t header_size = 0, data_size = 0, written = 0;
  int fd = -1;

  ~Impl() {
    if (fd < 0) return;
    ::close(fd);
    ::unlink(temporary.c_str());
  }
  Status failed(int error) const {
    return io_error(fmt::format("cannot write {}: {}", path.string(), std::strerror(error)));
  }
  // At `offset`, all of them.
  Status put(std::span<const std::byte> bytes, size_t offset) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed(errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += static_cast<size_t>(n);
    }
    return {};
  }
  Status put_header() {
    const std::string header = header_bytes(entries, metadata);
    if (header_size != 0 && header.size() != header_size) {
      return internal_error(
          fmt::format("header of {} bytes, wanted {}", header.size(), header_size));
    }
    header_size = header.size();
    return put(std::as_bytes(std::span(header)), 0);
  }
};

fs::path written_path(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as Linux
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target;
}

SafetensorsWriter::SafetensorsWriter() : impl_(std::make_unique<Impl>()) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    const std::vector<Entry>& entries,
                                                    const Metadata& metadata) {
  // A rename would put a file in the place of a device such as /dev/null.
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return io_error(fmt::format("cannot write {}: not a regular file", path.string()));
  }
  SafetensorsWriter writer;
  Impl& impl = *writer.impl_;
  impl.path = written_path(path);
  if (fs::is_symlink(fs::symlink_status(impl.path, ignored)))
    return io_error(fmt::format("cannot write {}: its links lead in a circle", path.string()));
  impl.temporary = impl.path;
  impl.temporary += fmt::format(".tmp.{}", ::getpid());
  impl.entries = entries;
  impl.metadata = metadata;
  for (const Entry& e : entries) impl.data_size += TensorView{e.dtype, e.dims}.num_bytes();
  impl.unfinished = UnfinishedFile(impl.temporary);
  impl.fd = ::open(impl.temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (impl.fd < 0) return impl.failed(errno);
  OCTET_RETURN_IF_ERROR(impl.put_header());
  return writer;
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > impl_->data_size - impl_->written) {
    return internal_error(fmt::format("{} bytes written, wanted {}", impl_->written + bytes.size(),
                                      impl_->data_size));
  }
  OCTET_RETURN_IF_ERROR(impl_->put(bytes, impl_->header_size + impl_->written));
  impl_->written += bytes.size();
  return {};
}

Status SafetensorsWriter::set_metadata(const Metadata& metadata) {
  impl_->metadata = metadata;
  return impl_->put_header();
}

std::string SafetensorsWriter::header() const {
  return header_bytes(impl_->entries, impl_->metadata);
}

Status SafetensorsWriter::finish() {
  if (impl_->written != impl_->data_size) {
    return internal_error(
        fmt::format("{} bytes written, wanted {}", impl_->written, impl_->data_size));
  }
  // Some file systems report a full disk only here.
  if (::close(std::exchange(impl_->fd, -1)) != 0 ||
      ::rename(impl_->temporary.c_str(), impl_->path.c_str()) != 0) {
    const int error = errno;
    ::unlink(impl_->temporary.c_str());
    return impl_->failed(error);
  }
  return {};
}

Status save_safetensors(const std::filesystem::path& path, const NamedViews& tensors,
                        const Metadata& metadata) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, view] : tensors) entries.push_back({name, view.dtype, view.dims});
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
  });
  OCTET_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                         SafetensorsWriter::create(path, entries, metadata));
  for (const auto& e : entries) {
    const TensorView& view = tensors.find(e.name)->second;
    OCTET_RETURN_IF_ERROR(writer.write({view.data, view.num_bytes()}));
  }
  return writer.finish();
}

}  // namespace octet::checkpoint
