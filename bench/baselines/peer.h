// SPDX-License-Identifier: Apache-2.0
// A peer of `octet bench --peer NAME=COMMAND`: another program that runs the same layer on the same weights. This is the one
// place where the protocol stands; tools/octet/bench_peer.h is its other side. Nothing but the standard library and POSIX is
// needed here.
//
// Lines on the peer's stdin and stdout, words apart by one space, numbers in C's notation; numbers in files are little endian.
//
//   octet ► layer HIDDEN INTERMEDIATE EXPERTS FORMAT LIMIT ALPHA BETA FILE    once; FORMAT mxfp4 or nvfp4, LIMIT may be inf
//   peer  ► ready                                                             or: refuse WHY
//   octet ► call THREADS ROWS TOP_K FILE                                      as often as it likes
//   peer  ► done SECONDS                                                      of the layer alone, x to y, weights cold
//   octet closes stdin: the peer ends
//
// The file of `layer` is gone after `ready`. For each expert 0 ... E - 1, one after another, as in a checkpoint:
//   gate codes [I, H/2], gate scales [I, H/G], up codes [I, H/2], up scales [I, H/G], down codes [H, I/2],
//   down scales [H, I/G], f32 [3]: factors of gate, up and down (1 for mxfp4)
// Codes are E2M1 pairs, element 2i in the low nibble; scales UE8M0 with G = 32 or E4M3 with G = 16.
//
// The file of `call`: x f32 [T, H] (each a BF16 number), ids i32 [T, k] (distinct in a row, 0 ... E - 1), weights f32 [T, k],
// then y f32 [T, H], which the peer writes in place before `done`.
//   h = (up' + BETA) gate' sigmoid(ALPHA gate'), gate' = min(gate, LIMIT), up' = clamp(up, -LIMIT, LIMIT)
//   y[t] = sum over j of weights[t, j] (down of expert ids[t, j] times h)
//
// Between its calls a peer is stopped (SIGSTOP), so its threads may wait as they like.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace octet::baselines {

// A file's bytes; empty if it cannot be mapped.
class MappedFile {
 public:
  MappedFile(const std::string& path, bool writable) {
    const int fd = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    struct stat info = {};
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0) {
      const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
      void* p = mmap(nullptr, static_cast<size_t>(info.st_size), access, MAP_SHARED, fd, 0);
      if (p != MAP_FAILED) data_ = static_cast<uint8_t*>(p);
      if (data_ != nullptr) bytes_ = info.st_size;
    }
    if (fd >= 0) close(fd);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  uint8_t* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  int64_t bytes_ = 0;
};

struct Matrix {
  const uint8_t* codes;   // [rows, cols / 2] E2M1 pairs
  const uint8_t* scales;  // [rows, cols / block]
  int64_t rows, cols, block;

  int code(int64_t row, int64_t col) const {
    return codes[row * (cols / 2) + col / 2] >> (col % 2 * 4) & 15;
  }
  uint8_t scale(int64_t row, int64_t col) const {
    return scales[row * (cols / block) + col / block];
  }
  int64_t bytes() const { return rows * (cols / 2) + rows * (cols / block); }
};

struct Expert {
  Matrix gate, up, down;
  float gate_factor, up_factor, down_factor;
};

struct Layer {
  int64_t hidden = 0, intermediate = 0, experts = 0;
  bool nvfp4 = false;
  float limit = 0, alpha = 0, beta = 0;
  const uint8_t* weights = nullptr;  // the file

  int64_t block() const { return nvfp4 ? 16 : 32; }
  bool has_limit() const { return std::isfinite(limit); }
  bool is_plain_silu() const { return alpha == 1 && beta == 0; }
  int64_t expert_bytes() const {
    const int64_t elements = 3 * hidden * intermediate;
    return elements / 2 + elements / block() + 3 * static_cast<int64_t>(sizeof(float));
  }
  Expert expert(int64_t index) const {
    const uint8_t* p = weights + index * expert_bytes();
    const auto take = [&](int64_t rows, int64_t cols) {
      const Matrix m{p, p + rows * (cols / 2), rows, cols, block()};
      p += m.bytes();
      return m;
    };
    Expert e{};
    e.gate = take(intermediate, hidden);
    e.up = take(intermediate, hidden);
    e.down = take(hidden, intermediate);
    std::memcpy(&e.gate_factor, p, sizeof(float));
    std::memcpy(&e.up_factor, p + sizeof(float), sizeof(float));
    std::memcpy(&e.down_factor, p + 2 * sizeof(float), sizeof(float));
    return e;
  }
};

struct Call {
  int threads = 0;
  int64_t rows = 0, top_k = 0;
  const float* x = nullptr;        // [T, H]
  const int32_t* ids = nullptr;    // [T, k]
  const float* weights = nullptr;  // [T, k]
  float* y = nullptr;              // [T, H]
};

class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;
  virtual std::string load(const Layer& layer) = 0;  // why not, or empty
  virtual double run(const Call& call) = 0;          // seconds
};

inline double now_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline void answer(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// A line of stdin without its end; false at its end.
inline bool read_line(std::string& line) {
  line.clear();
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return false;
}

// What follows the first `words` words of a line: a path may hold spaces.
inline std::string rest_of(const std::string& line, int words) {
  size_t at = 0;
  for (int i = 0; i < words && at != std::string::npos; ++i) {
    at = line.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  return at == std::string::npos ? std::string() : line.substr(at);
}

inline std::string load_layer(const std::string& line, Peer& peer, Layer& layer) {
  long long hidden = 0, intermediate = 0, experts = 0;
  char format[8] = {};
  if (std::sscanf(line.c_str(), "layer %lld %lld %lld %7s %f %f %f", &hidden, &intermediate,
                  &experts, format, &layer.limit, &layer.alpha, &layer.beta) != 7) {
    return "found '" + line + "', want 'layer' and its eight words";
  }
  layer.hidden = hidden;
  layer.intermediate = intermediate;
  layer.experts = experts;
  layer.nvfp4 = std::strcmp(format, "nvfp4") == 0;
  const MappedFile file(rest_of(line, 8), false);
  const int64_t want = layer.experts * layer.expert_bytes();
  if (file.bytes() != want) {
    return "weights of " + std::to_string(file.bytes()) + " bytes, want " + std::to_string(want);
  }
  layer.weights = file.data();
  const std::string why = peer.load(layer);
  layer.weights = nullptr;
  return why;
}

// False if the line is no call or its file too small.
inline bool run_call(const std::string& line, const Layer& layer, Peer& peer) {
  long long rows = 0, top_k = 0;
  Call call;
  if (std::sscanf(line.c_str(), "call %d %lld %lld", &call.threads, &rows, &top_k) != 3) {
    return false;
  }
  call.rows = rows;
  call.top_k = top_k;
  const MappedFile file(rest_of(line, 4), true);
  const int64_t x_elems = call.rows * layer.hidden;
  const int64_t slots = call.rows * call.top_k;
  if (file.bytes() < (2 * x_elems + 2 * slots) * static_cast<int64_t>(sizeof(float))) return false;
  float* const x = reinterpret_cast<float*>(file.data());
  call.x = x;
  call.ids = reinterpret_cast<const int32_t*>(x + x_elems);
  call.weights = x + x_elems + slots;
  call.y = x + x_elems + 2 * slots;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.9g", peer.run(call));
  answer(std::string("done ") + seconds);
  return true;
}

// The whole conversation; the exit status of main().
inline int serve(Peer& peer) {
  std::string line;
  if (!read_line(line)) return 0;
  Layer layer;
  const std::string why = load_layer(line, peer, layer);
  answer(why.empty() ? "ready" : "refuse " + why);
  if (!why.empty()) return 1;
  while (read_line(line)) {
    if (run_call(line, layer, peer)) continue;
    std::fprintf(stderr, "found '%s', want a call and its file\n", line.c_str());
    return 1;
  }
  return 0;
}

}  // namespace octet::baselines
