// SPDX-License-Identifier: Apache-2.0
// What a run is made of, from a JSON file:
//
//   {"kernel": "quantize", "grid": [2], "block": [256], "cluster": [1], "shared_bytes": 0,
//    "buffers": {"x": {"file": "x.bin"}, "y": {"bytes": 4096}, "z": {"bytes": 64, "fill": 0}, "r": {"bytes": 64, "random": 7}},
//    "parameters": [{"buffer": "x"}, {"i64": 8}, {"f32": 1.5}, {"struct": [{"buffer": "y"}, {"u32": 3}]}],
//    "write": {"y": "y.bin"}}
//
// A buffer without file, fill or random has bytes that nobody has written; "is_read_only" refuses the kernel's writes. A struct's
// fields stand at multiples of their sizes, as a C compiler puts them, and its size is one of its widest field's.
// Errors: kInvalidArgument and kIo, with the name of what is wrong.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ptxsim/machine/machine.h"

namespace octet::ptxsim::tool {

struct RunFile {
  std::string kernel;  // a part of its name; empty: the only one
  machine::Dim3 grid, block, cluster;
  uint32_t shared_bytes = 0;
  std::map<std::string, uint64_t> buffers;  // addresses
  std::map<std::string, uint64_t> sizes;
  std::map<std::string, std::string> write;  // buffer -> file
  std::vector<uint8_t> parameters;
};

Result<std::string> read_file(const std::string& path);

// Allocates and fills the buffers, and lays out the parameters, each at a multiple of its alignment.
Result<RunFile> read_run(const std::string& path, machine::GlobalMemory& memory);

}  // namespace octet::ptxsim::tool
