// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "checkpoint/safetensors.h"
#include "formats/bf16.h"

namespace octet::cli_test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Runs a program to its end with `err` as the file of its stderr; meanwhile() is called now and then.
Finished run_program(std::vector<std::string> all, const std::string& err,
                     const std::function<void()>& meanwhile) {
  const Folder folder;
  const std::string out = folder / "out";
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  pid_t pid = 0;
  Finished finished;
  if (posix_spawn(&pid, all[0].c_str(), &actions, nullptr, argv.data(), environ) == 0) {
    constexpr useconds_t kPause = 2000;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      meanwhile();
      usleep(kPause);
    }
    finished.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&actions);
  finished.out = read_file(out);
  return finished;
}

std::vector<std::string> with_program(const std::vector<std::string>& words) {
  std::vector<std::string> all = {OCTET_PROGRAM};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Finished run_with_error(const std::vector<std::string>& all) {
  const Folder folder;
  const std::string err = folder / "err";
  Finished finished = run_program(all, err, [] {});
  finished.err = read_file(err);
  return finished;
}

}  // namespace

int Finished::err_lines() const {
  return static_cast<int>(std::count(err.begin(), err.end(), '\n'));
}

nlohmann::json Finished::json() const { return nlohmann::json::parse(out, nullptr, false); }

Finished octet(const std::vector<std::string>& words) {
  return run_with_error(with_program(words));
}

Finished octet_in_shell(const std::string& before, const std::vector<std::string>& words,
                        const std::string& after) {
  std::vector<std::string> all = {"/bin/sh", "-c", before + "; exec \"$@\" " + after, "sh"};
  const std::vector<std::string> program = with_program(words);
  all.insert(all.end(), program.begin(), program.end());
  return run_with_error(all);
}

Finished octet_on_terminal(const std::vector<std::string>& words) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(terminal, 0);
  EXPECT_EQ(grantpt(terminal), 0);
  EXPECT_EQ(unlockpt(terminal), 0);
  const std::string name = ptsname(terminal);
  // Held open, so that reading says "nothing there" and not "hung up" before the program begins.
  const int held = open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string written;
  const auto drain = [&] {
    char buffer[4096];
    for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;) {
      written.append(buffer, static_cast<size_t>(n));
    }
  };
  Finished finished = run_program(with_program(words), name, drain);
  drain();
  close(held);
  close(terminal);
  finished.err = written;
  return finished;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "octet_cli_XXXXXX").string();
  path_ = mkdtemp(name.data());
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string make_checkpoint(const Folder& folder, const std::string& preset,
                            const std::vector<std::string>& more) {
  const std::string model = folder / preset;
  std::vector<std::string> words = {"synth",    preset, "--output",       model, "--experts", "8",
                                    "--hidden", "128",  "--intermediate", "64"};
  words.insert(words.end(), more.begin(), more.end());
  if (std::find(more.begin(), more.end(), "--layers") == more.end()) {
    words.insert(words.end(), {"--layers", "1"});
  }
  const Finished made = octet(words);
  EXPECT_EQ(made.exit, 0) << made.err;
  return model;
}

std::string last_layer(const std::string& model) {
  const Finished inspected = octet({"inspect", model, "--json"});
  EXPECT_EQ(inspected.exit, 0) << inspected.err;
  const nlohmann::json json = inspected.json();
  if (json.is_discarded() || json["layers"].empty()) return "0";
  return std::to_string(json["layers"].back()["layer"].get<int64_t>());
}

std::string save(const std::string& path, const NamedTensors& tensors) {
  NamedViews views;
  for (const auto& [name, tensor] : tensors) views[name] = tensor.view();
  const Status saved = checkpoint::save_safetensors(path, views);
  EXPECT_TRUE(saved.ok()) << saved.why;
  return path;
}

NamedTensors load(const std::string& path) {
  NamedTensors tensors;
  const auto file = checkpoint::SafetensorsFile::open(path);
  EXPECT_TRUE(file.ok()) << file.status().why;
  if (!file.ok()) return tensors;
  for (const auto& [name, view] : (*file).tensors()) {
    Tensor tensor(view.dtype, view.dims);
    std::memcpy(tensor.data(), view.data, view.num_bytes());
    tensors[name] = std::move(tensor);
  }
  return tensors;
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.num_bytes()};
}

Tensor make_x(int64_t rows, int64_t width) {
  Tensor x(Dtype::kBf16, {rows, width});
  for (int64_t i = 0; i < rows * width; ++i) {
    const auto v = static_cast<float>(std::sin(0.37 * static_cast<double>(i + 1)));
    x.as<Bf16>()[i] = formats::bf16_from_f32(v);
  }
  return x;
}

}  // namespace octet::cli_test
