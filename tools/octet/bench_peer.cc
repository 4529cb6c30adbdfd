// SPDX-License-Identifier: Apache-2.0
#include "bench_peer.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "compare.h"
#include "report.h"

namespace octet::tools {
namespace {

// To load a large layer from a slow disk, or a call that is far too slow to compare.
constexpr double kLongestAnswerSeconds = 600;
constexpr int kLookMs = 100;  // how often who waits looks whether the peer is alive
constexpr int kQuickLooks = 1000,
              kStopLooks = 2000;  // until a peer has stopped; from then on every 10 ms
constexpr useconds_t kPause = 10'000;

Status system_error_of(std::string_view what) {
  return io_error(fmt::format("--peer: {}: {}", what, std::strerror(errno)));
}

// In the child, where only what is async-signal-safe may be called: other threads of ours held locks when it was made.
[[noreturn]] void become(int in, int out, const char* command, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::signal(SIGXFSZ, SIG_DFL);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(127);
}

// Appends `bytes` of each of `rows` rows that stand `stride` apart.
void copy_rows(const uint8_t* from, int64_t rows, int64_t stride, int64_t bytes, std::byte*& to) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to, from + row * stride, static_cast<size_t>(bytes));
    to += bytes;
  }
}

void copy_matrix(const layouts::WeightView& w, std::byte*& to) {
  copy_rows(w.codes + w.first_col / 2, w.rows, w.code_stride, w.cols / 2, to);
  copy_rows(w.scales + w.first_col / w.block(), w.rows, w.scale_stride, w.cols / w.block(), to);
}

bool has_bias(const layouts::ExpertWeights& e) {
  return e.gate_bias.data != nullptr || e.up_bias.data != nullptr || e.down_bias.data != nullptr;
}

Status check_expert(const layouts::ExpertWeights& e, float limit) {
  if (has_bias(e)) {
    return unsupported("--peer: the layer has biases, want one without: peers know of none");
  }
  for (const layouts::WeightView* w : {&e.gate, &e.up, &e.down}) {
    if (w->start_in_block() == 0 && w->cols % w->block() == 0) continue;
    return unsupported(
        fmt::format("--peer: found columns {}..{} of a matrix, want whole blocks of {}",
                    w->first_col, w->first_col + w->cols - 1, w->block()));
  }
  if (e.limit == limit) return {};
  return unsupported(
      fmt::format("--peer: found the limits {} and {}, want one for all experts", e.limit, limit));
}

std::string limit_text(float limit) {
  return limit == std::numeric_limits<float>::max() ? "inf" : fmt::format("{:.9g}", limit);
}

std::string how_it_ended(int status) {
  return WIFEXITED(status) ? fmt::format("ended with exit status {}", WEXITSTATUS(status))
                           : fmt::format("was ended by signal {}", WTERMSIG(status));
}

}  // namespace

Result<PeerFlag> parse_peer_flag(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return misuse(fmt::format("--peer: found '{}', want NAME=COMMAND", text));
  }
  return PeerFlag{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Result<SharedFile> SharedFile::make(int64_t bytes) {
  const int fd = ::memfd_create("octet", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return system_error_of("memory to share");
  void* data = MAP_FAILED;
  // Sealed: who opens it cannot take pages away under us.
  if (::ftruncate(fd, bytes) == 0 &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (data == MAP_FAILED) {
    Status status = system_error_of(human_bytes(bytes) + " of memory to share");
    ::close(fd);
    return status;
  }
  return SharedFile(fd, static_cast<std::byte*>(data), bytes);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

SharedFile::~SharedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
  if (fd_ >= 0) ::close(fd_);
}

std::string SharedFile::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

int64_t peer_weights_bytes(const LayerSpec& spec) {
  constexpr auto kFactors = static_cast<int64_t>(3 * sizeof(float));
  return spec.local_experts * (layouts::expert_weight_bytes(spec, 0) + kFactors);
}

Result<SharedFile> peer_weights(const checkpoint::LayerTensors& layer) {
  ExpertReader experts(layer);
  const float limit = layer.spec.swiglu.limit;
  for (const layouts::ExpertWeights& e : layer.experts) {
    if (layer.packed) continue;
    OCTET_RETURN_IF_ERROR(check_expert(e, limit));
  }
  OCTET_ASSIGN_OR_RETURN(SharedFile file, SharedFile::make(peer_weights_bytes(layer.spec)));
  std::byte* to = file.data();
  for (int64_t i = 0; i < layer.spec.local_experts; ++i) {
    const layouts::ExpertWeights e = experts(i);
    OCTET_RETURN_IF_ERROR(check_expert(e, limit));
    for (const layouts::WeightView* w : {&e.gate, &e.up, &e.down}) copy_matrix(*w, to);
    for (const float factor : {e.gate_alpha, e.up_alpha, e.down_alpha}) {
      std::memcpy(to, &factor, sizeof factor);
      to += sizeof factor;
    }
  }
  return file;
}

PeerProcess::PeerProcess(PeerFlag flag, pid_t pid, int socket, int answers)
    : flag_(std::move(flag)), pid_(pid), socket_(socket), answers_(answers) {}

PeerProcess::~PeerProcess() {
  ::close(socket_);
  ::close(answers_);
  if (pid_ > 0) kill();
}

// It and all of its group; a peer that has left the group it was put into, alone. Its status, as waitpid() has it.
int PeerProcess::kill() {
  int status = 0;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

bool PeerProcess::has_ended() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

Result<std::unique_ptr<PeerProcess>> PeerProcess::start(const PeerFlag& flag,
                                                        const checkpoint::LayerTensors& layer,
                                                        const SharedFile& weights) {
  int sockets[2], pipe[2];
  // A socket for its stdin: writing to one whose peer is gone can fail without a signal. A pipe for its stdout, so that each
  // ends on its own.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return system_error_of(flag.name);
  }
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    Status status = system_error_of(flag.name);
    for (const int fd : sockets) ::close(fd);
    return status;
  }
  const std::string command = "exec " + flag.command;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(sockets[1], pipe[1], command.c_str(), parent);
  ::close(sockets[1]);
  ::close(pipe[1]);
  if (pid < 0) {
    Status status = system_error_of(flag.name);
    ::close(sockets[0]);
    ::close(pipe[0]);
    return status;
  }
  ::setpgid(pid, pid);  // as the child does: whoever comes first
  std::unique_ptr<PeerProcess> peer(new PeerProcess(flag, pid, sockets[0], pipe[0]));
  const LayerSpec& spec = layer.spec;
  peer->tell(fmt::format("layer {} {} {} {} {} {:.9g} {:.9g} {}", spec.hidden, spec.intermediate,
                         spec.local_experts, name_of(spec.weights), limit_text(spec.swiglu.limit),
                         spec.swiglu.alpha, spec.swiglu.beta, weights.path()));
  OCTET_ASSIGN_OR_RETURN(const std::string line, peer->answer("ready"));
  constexpr std::string_view kRefuse = "refuse ";
  if (line.starts_with(kRefuse)) {
    return unsupported(fmt::format("--peer {}: it refuses the layer: {}", flag.name,
                                   std::string_view(line).substr(kRefuse.size())));
  }
  if (line != "ready") return peer->found(line, "ready");
  OCTET_RETURN_IF_ERROR(peer->park());
  return peer;
}

void PeerProcess::resume() const { ::kill(-pid_, SIGCONT); }

Status PeerProcess::park() {
  constexpr std::string_view kWant = "one that waits for its next call";
  ::kill(-pid_, SIGSTOP);
  for (int i = 0; i < kStopLooks; ++i) {
    if (has_ended()) {
      return invalid_argument(
          fmt::format("--peer {}: it {}, want {}", name(), how_it_ended(kill()), kWant));
    }
    int status = 0;
    if (::waitpid(pid_, &status, WUNTRACED | WNOHANG) == pid_ && WIFSTOPPED(status)) return {};
    if (i > kQuickLooks) ::usleep(kPause);
  }
  kill();
  return invalid_argument(fmt::format(
      "--peer {}: it does not stop at SIGSTOP to its process group, want {}", name(), kWant));
}

// Why there is no answer.
Status PeerProcess::died(std::string_view want) {
  std::string how = "closed its stdout";
  constexpr int kLooks = 100;
  for (int i = 0; i < kLooks; ++i) {
    if (has_ended()) {
      how = how_it_ended(kill());
      break;
    }
    ::usleep(kPause);
  }
  return invalid_argument(fmt::format("--peer {}: it {}, want '{}'", name(), how, want));
}

Status PeerProcess::found(std::string_view line, std::string_view want) const {
  return invalid_argument(fmt::format("--peer {}: found '{}', want '{}'", name(), line, want));
}

// A few hundred bytes always fit; if nobody reads them, the answer says so.
void PeerProcess::tell(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
}

Result<std::string> PeerProcess::answer(std::string_view want) {
  constexpr size_t kLongest = 4096;
  const Stopwatch watch;
  for (;;) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kLongest) return found(unread_.substr(0, 40) + "...", want);
    pollfd ready = {answers_, POLLIN, 0};
    const int events = ::poll(&ready, 1, kLookMs);
    if (events < 0 && errno == EINTR) continue;
    if (events == 0) {
      // Its stdout may be open still, in a child of its own.
      if (has_ended()) return died(want);
      if (watch.seconds() < kLongestAnswerSeconds) continue;
      return invalid_argument(fmt::format("--peer {}: no answer in {}, want '{}'", name(),
                                          human_seconds(kLongestAnswerSeconds), want));
    }
    char buffer[kLongest];
    const ssize_t bytes = ::read(answers_, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return died(want);
    unread_.append(buffer, static_cast<size_t>(bytes));
  }
}

Result<double> PeerProcess::run(const Call& call) {
  constexpr std::string_view kWant = "done SECONDS";
  constexpr std::string_view kDone = "done ";
  const Stopwatch watch;
  tell(fmt::format("call {} {} {} {}", call.threads, call.rows, call.top_k, call.file.path()));
  OCTET_ASSIGN_OR_RETURN(const std::string line, answer(kWant));
  const double most = watch.seconds();
  double seconds = 0;
  const char* const end = line.data() + line.size();
  if (!line.starts_with(kDone)) return found(line, kWant);
  const auto [last, error] = std::from_chars(line.data() + kDone.size(), end, seconds);
  if (error != std::errc() || last != end) return found(line, kWant);
  if (seconds > 0 && seconds <= most) return seconds;
  return invalid_argument(
      fmt::format("--peer {}: found {} s, want more than 0 and at most the {} s that passed",
                  name(), seconds, most));
}

}  // namespace octet::tools
