// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

#include "checkpoint/unfinished_file.h"
#include "console.h"
#include "core/printable.h"
#include "output_file.h"
#include "verbs.h"

namespace octet::tools {
namespace {

// Opened the wrong way round, so that a write to stdout or stderr fails.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    [[maybe_unused]] const int lowest =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void end_on_signal(int signal) {
  checkpoint::remove_unfinished_files();
  ::raise(signal);  // its default action again: SA_RESETHAND
}

void catch_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    // What was ignored stays so: nohup.
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = end_on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void end_on_exception() {
  checkpoint::remove_unfinished_files();
  remove_older_output();
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    report_exception(error);
    ::_exit(kFailed);
  } catch (...) {
  }
  std::abort();
}

bool is_lack_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) return true;
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::not_enough_memory;
}

}  // namespace

void prepare_process() {
  open_standard_streams();
  catch_signals();
  std::set_terminate(end_on_exception);
}

void report_exception(const std::exception& error) {
  if (is_lack_of_memory(error)) {
    // No formatting: that would allocate.
    write_err(
        "octet: not enough memory: an allocation failed, want fewer rows or experts, or a higher "
        "limit (ulimit -v)\n");
    return;
  }
  print_err("octet: unexpected: {}\n", printable(error.what()));
}

}  // namespace octet::tools
