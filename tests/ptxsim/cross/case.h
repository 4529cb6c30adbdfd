// SPDX-License-Identifier: Apache-2.0
// A case of the cross-run: a small PTX text, what it is launched with, and the bytes that it leaves, on a device and in the simulator.
//
//   buffers    what is read and what is written; their addresses are the kernel's parameters in their order, then the tensor maps
//   launches   in the order of one stream
//   probes     instead: parameters of tensor maps, of which it is asked whether they are refused
//
// A case depends on nothing but its own text: the same one makes the same bytes on every run, so that its output's digest can be kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptxsim/machine/cta.h"
#include "ptxsim/tile/tensor_map.h"

namespace octet::cross {

using Bytes = std::vector<uint8_t>;
using ptxsim::machine::Dim3;
using ptxsim::tile::TensorMapArgs;

constexpr uint8_t kUntouched = 0xA5;  // what outputs hold before the first launch

struct Buffer {
  std::string name;
  Bytes bytes;  // before the first launch
  bool is_output = false;
};

// Its base is the address of a buffer's byte.
struct Map {
  TensorMapArgs args;
  size_t buffer = 0;
  uint64_t offset = 0;
};

struct Launch {
  std::string kernel = "k";
  Dim3 grid = {}, block = {32, 1, 1}, cluster = {};
  uint32_t dynamic_shared_bytes = 0;
  bool is_programmatic = false;  // may begin before the launch before it has ended (griddepcontrol)
};

// What the simulator must be told to give the device's bytes.
enum class Needs {
  kNothing,        // the same under either model of sums
  kTruncatedSums,  // machine::Arithmetic::kTruncated
  kApproxTables,   // insn::use_approx_tables
};

struct Case {
  std::string name;  // family/what
  std::string text;  // of the module
  std::vector<Buffer> buffers;
  std::vector<Map> maps;
  std::vector<Launch> launches;
  std::vector<TensorMapArgs> probes;
  Needs needs = Needs::kNothing;
  int element_bytes = 4;  // of outputs, for reports
};

// A module of one entry `k`: parameters p0 ... (addresses), m0 ... (tensor maps), registers %p<16> %h<40> %r<200> %d<64>, and `body`.
// Every thread has its number in the block in %tx. `declarations` stands before it: shared memory.
std::string module_of(size_t buffers, size_t maps, const std::string& body,
                      const std::string& declarations = "");
// An entry alone, for modules of several.
std::string entry_of(const std::string& name, size_t buffers, size_t maps, const std::string& body,
                     const std::string& declarations = "");
std::string head();

Buffer input(std::string name, Bytes bytes);
Buffer output(std::string name, size_t bytes);

// A case of one launch; its parameters are all its buffers and maps.
Case simple_case(std::string name, std::string body, std::vector<Buffer> buffers, Launch launch,
                 std::string declarations = "");

std::vector<Case> all_cases();

// A family a file.
void add_elementwise(std::vector<Case>& cases);
void add_bit_tables(std::vector<Case>& cases);
void add_warp(std::vector<Case>& cases);
void add_barriers(std::vector<Case>& cases);
void add_memory(std::vector<Case>& cases);
void add_grids(std::vector<Case>& cases);
void add_copies(std::vector<Case>& cases);
void add_tensor_copies(std::vector<Case>& cases);
void add_tensor_maps(std::vector<Case>& cases);
void add_matrix_moves(std::vector<Case>& cases);
void add_mma(std::vector<Case>& cases);
void add_wgmma(std::vector<Case>& cases);

}  // namespace octet::cross
