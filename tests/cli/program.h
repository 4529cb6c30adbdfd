// SPDX-License-Identifier: Apache-2.0
// The program as a user has it: words in; exit status, stdout, stderr and files out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace octet::cli_test {

struct Finished {
  int exit = -1;
  std::string out, err;
  int err_lines() const;
  nlohmann::json json() const;  // of stdout; discarded if it is none
};

// Runs octet to its end, stdin closed.
Finished octet(const std::vector<std::string>& words);

// The same through /bin/sh, as "BEFORE; exec octet WORDS AFTER": for limits and redirections. `out` and `err` are the shell's.
// Ended by a signal: 128 and its number.
Finished octet_in_shell(const std::string& before, const std::vector<std::string>& words,
                        const std::string& after = "");

// The same with a terminal as stderr, and what was written there as `err`.
Finished octet_on_terminal(const std::vector<std::string>& words);

// A folder of one test's own, removed with it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A small made-up checkpoint: one MoE layer or more, H 128, I 64, 8 experts.
std::string make_checkpoint(const Folder& folder, const std::string& preset,
                            const std::vector<std::string>& more = {});
// The last MoE layer's index: the one without special cases.
std::string last_layer(const std::string& model);

std::string save(const std::string& path, const NamedTensors& tensors);
NamedTensors load(const std::string& path);
std::string bytes_of(const Tensor& tensor);

// BF16 [rows, width], ordinary numbers that depend on row and column alone.
Tensor make_x(int64_t rows, int64_t width = 128);

}  // namespace octet::cli_test
