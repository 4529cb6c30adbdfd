// SPDX-License-Identifier: Apache-2.0
#include "outcome.h"

#include <cstring>
#include <fstream>
#include <xxhash.h>

namespace octet::cross {
namespace {

void put(std::ofstream& out, const void* bytes, uint64_t count) {
  out.write(reinterpret_cast<const char*>(&count), sizeof(count));
  out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
}

template <class T>
bool get(std::ifstream& in, T* into) {
  uint64_t count = 0;
  if (!in.read(reinterpret_cast<char*>(&count), sizeof(count))) return false;
  into->resize(count);
  return static_cast<bool>(
      in.read(reinterpret_cast<char*>(into->data()), static_cast<std::streamsize>(count)));
}

void add(std::string* all, const void* bytes, size_t count) {
  all->append(static_cast<const char*>(bytes), count);
  all->push_back('\n');
}

}  // namespace

Status append_outcome(const std::string& path, const std::string& name, const Outcome& outcome) {
  std::ofstream out(path, std::ios::binary | std::ios::app);
  put(out, name.data(), name.size());
  put(out, outcome.error.data(), outcome.error.size());
  const uint64_t count = outcome.outputs.size();
  put(out, &count, sizeof(count));
  for (const Bytes& bytes : outcome.outputs) put(out, bytes.data(), bytes.size());
  out.flush();
  return out ? Status{} : io_error(path + ": cannot be written");
}

Result<std::map<std::string, Outcome>> read_outcomes(const std::string& path) {
  std::map<std::string, Outcome> all;
  std::ifstream in(path, std::ios::binary);
  std::string name;
  while (in && get(in, &name)) {
    Outcome outcome;
    Bytes count_bytes;
    uint64_t count = 0;
    if (!get(in, &outcome.error) || !get(in, &count_bytes) || count_bytes.size() != sizeof(count))
      return io_error(path + ": ends within a record");
    std::memcpy(&count, count_bytes.data(), sizeof(count));
    outcome.outputs.resize(count);
    for (Bytes& bytes : outcome.outputs)
      if (!get(in, &bytes)) return io_error(path + ": ends within a record");
    all[name] = std::move(outcome);
  }
  return all;
}

uint64_t digest(const Bytes& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t digest(const Case& what) {
  std::string all = what.text;
  for (const Buffer& buffer : what.buffers) {
    const uint64_t bytes = digest(buffer.bytes);
    add(&all, &bytes, sizeof(bytes));
  }
  for (const Map& map : what.maps) {
    add(&all, &map.args, sizeof(map.args));
    add(&all, &map.offset, sizeof(map.offset));
  }
  for (const Launch& launch : what.launches) {
    add(&all, launch.kernel.data(), launch.kernel.size());
    add(&all, &launch.grid, sizeof(launch.grid));
    add(&all, &launch.block, sizeof(launch.block));
    add(&all, &launch.cluster, sizeof(launch.cluster));
    add(&all, &launch.dynamic_shared_bytes, sizeof(launch.dynamic_shared_bytes));
    all.push_back(launch.is_programmatic ? 'p' : ' ');
  }
  for (const TensorMapArgs& args : what.probes) add(&all, &args, sizeof(args));
  return XXH3_64bits(all.data(), all.size());
}

}  // namespace octet::cross
