// SPDX-License-Identifier: Apache-2.0
// Other programs that `bench` times beside us. bench/baselines/peer.h says what the two sides tell each other; this is octet's.
//
// A peer is a child process in a process group of its own. It is stopped as soon as it has answered and goes on only for its next
// call, so none of its threads spins while somebody else is timed. It dies with octet, and its group with it. Files are memory without a name
// (memfd), which a peer opens as /proc/PID/fd/N: nothing is written to a disk and nothing is left behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "checkpoint/model.h"
#include "octet/status.hpp"

namespace octet::tools {

// As typed: NAME=COMMAND.
struct PeerFlag {
  std::string name, command;
};
Result<PeerFlag> parse_peer_flag(std::string_view text);

// Memory of this process that another one can open.
class SharedFile {
 public:
  static Result<SharedFile> make(int64_t bytes);
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();
  std::byte* data() const { return data_; }
  std::string path() const;

 private:
  SharedFile(int fd, std::byte* data, int64_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  int fd_;
  std::byte* data_;
  int64_t bytes_;
};

// The file of `layer`: the same codes and scales as our kernels read. Refused: what the file cannot hold (biases, a slice that
// begins inside a scale block).
Result<SharedFile> peer_weights(const checkpoint::LayerTensors& layer);
int64_t peer_weights_bytes(const LayerSpec& spec);

class PeerProcess {
 public:
  // Starts `sh -c "exec COMMAND"` and lets it load the layer whose weights are in `weights`. Stopped when this returns.
  static Result<std::unique_ptr<PeerProcess>> start(const PeerFlag& flag,
                                                    const checkpoint::LayerTensors& layer,
                                                    const SharedFile& weights);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& name() const { return flag_.name; }
  const std::string& command() const { return flag_.command; }
  pid_t pid() const { return pid_; }

  void resume() const;
  Status park();  // returns when it has stopped
  struct Call {
    int threads = 0;
    int64_t rows = 0, top_k = 0;
    const SharedFile& file;
  };
  Result<double> run(const Call& call);  // seconds, as the peer says; between resume() and park()

 private:
  PeerProcess(PeerFlag flag, pid_t pid, int socket, int answers);
  int kill();
  bool has_ended() const;  // kill() says how
  void tell(const std::string& line);
  Result<std::string> answer(std::string_view want);
  Status died(std::string_view want);
  Status found(std::string_view line, std::string_view want) const;

  PeerFlag flag_;
  pid_t pid_;
  int socket_, answers_;  // its stdin, its stdout
  std::string unread_;
};

}  // namespace octet::tools
