// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor in tile mode: every swizzle, element type and rank, steps, boxes beyond the tensor on every side, both ways.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

using ptxsim::tile::tile_type_bits;
using ptxsim::tile::tile_type_name;
using ptxsim::tile::TileType;

constexpr int kWords = 8192;  // of shared memory: 32 KiB
const char kShared[] = ".shared .align 1024 .b8 s[32768]; .shared .align 8 .b64 m;";

// One box of a tensor.
struct Copy {
  TensorMapArgs map;
  std::vector<int> at;    // coordinates
  int shared_offset = 0;  // of the box
  bool has_hint = false;
};

// Densely packed dimensions but for `pad` bytes behind each row.
TensorMapArgs tensor(TileType type, std::vector<uint64_t> dims, std::vector<uint32_t> box,
                     uint64_t pad = 0) {
  TensorMapArgs args;
  args.type = static_cast<int>(type);
  args.rank = static_cast<int>(dims.size());
  uint64_t stride = dims[0] * static_cast<uint64_t>(tile_type_bits(type)) / 8;
  stride = (stride + 31) / 32 * 32 + pad;
  for (size_t i = 0; i < dims.size(); ++i) {
    args.dims[i] = dims[i];
    args.box[i] = box[i];
    if (i + 1 < dims.size()) {
      args.strides[i] = stride;
      stride *= dims[i + 1];
    }
  }
  return args;
}

uint64_t tensor_bytes(const TensorMapArgs& args) {
  const auto rank = static_cast<size_t>(args.rank);
  return rank == 1 ? args.dims[0] * static_cast<uint64_t>(tile_type_bits(TileType(args.type))) / 8
                   : args.strides[rank - 2] * args.dims[rank - 1];
}

// Random; of 32-bit floats also what lies between two tfloat32, subnormal numbers, NaN and Inf.
Bytes tensor_content(const TensorMapArgs& args) {
  const auto type = TileType(args.type);
  const bool is_f32 = type == TileType::kFloat32 ||
                      (type >= TileType::kFloat32Ftz && type <= TileType::kTfloat32Ftz);
  Bytes bytes = random_bytes(tensor_bytes(args), 61);
  for (size_t i = 0; is_f32 && i < bytes.size() / 4; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, &bytes[4 * i], 4);
    const uint32_t forms[] = {word & 0xFFFFF000, word, word & 0x807FFFFF,
                              i % 16 == 3 ? word | 0x7F800000 : (word & 0xFFFFE000) | 0x1001};
    std::memcpy(&bytes[4 * i], &forms[i % 4], 4);
  }
  return bytes;
}

// What the mbarrier is told.
uint64_t box_bytes(const TensorMapArgs& args) {
  uint64_t elements = args.box[0];
  for (size_t i = 1; i < static_cast<size_t>(args.rank); ++i)
    elements *= (args.box[i] + args.steps[i] - 1) / args.steps[i];
  return elements * static_cast<uint64_t>(tile_type_bits(TileType(args.type))) / 8;
}

std::string coordinates(const std::vector<int>& at) {
  std::string registers;
  for (size_t i = 0; i < at.size(); ++i)
    registers += fmt::format("{}%r{}", i == 0 ? "" : ", ", 20 + i);
  return "{" + registers + "}";
}
std::string set_coordinates(const Copy& copy) {
  std::string text = "mov.u32 %r1, s; mov.u32 %r2, m; ";
  for (size_t i = 0; i < copy.at.size(); ++i)
    text += fmt::format("mov.b32 %r{}, {}; ", 20 + i, copy.at[i]);
  if (copy.has_hint) text += "createpolicy.fractional.L2::evict_first.b64 %d2, 1.0; ";
  return text + "setp.ne.u32 %p1, %tx, 0; mov.u64 %d1, m0; cvta.param.u64 %d1, %d1;\n";
}

Case made_of(std::string name, const std::string& body, const Copy& copy,
             std::vector<Buffer> buffers, size_t tensor_buffer) {
  Case made;
  made.name = "tensor copies/" + std::move(name);
  made.text = module_of(buffers.size(), 1, body, kShared);
  made.buffers = std::move(buffers);
  Map map;
  map.args = copy.map;
  map.buffer = tensor_buffer;
  made.maps = {map};
  Launch launch;
  launch.block = {128, 1, 1};
  made.launches = {launch};
  made.element_bytes = 1;
  return made;
}

void add_load(std::vector<Case>& cases, const std::string& name, const Copy& copy) {
  const std::string text =
      set_coordinates(copy) + fill_shared(kWords, 128) +
      "@%p1 bra READY; mbarrier.init.shared.b64 [%r2], 1; "
      "fence.mbarrier_init.release.cluster;\nREADY: bar.sync 0; @%p1 bra ISSUED; "
      "fence.proxy.async;\n" +
      fmt::format(
          "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {};\n"
          "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{} "
          "[%r1+{}], [%d1, {}], [%r2]{};\nISSUED:",
          box_bytes(copy.map), copy.at.size(), copy.has_hint ? ".L2::cache_hint" : "",
          copy.shared_offset, coordinates(copy.at), copy.has_hint ? ", %d2" : "") +
      wait_parity("%r2", 0) + dump_shared(1, kWords, 128);
  cases.push_back(made_of("load, " + name, text, copy,
                          {input("tensor", tensor_content(copy.map)), output("shared", 4 * kWords)},
                          0));
}

void add_store(std::vector<Case>& cases, const std::string& name, const Copy& copy) {
  const std::string text =
      set_coordinates(copy) + load_shared(0, kWords, 128) +
      fmt::format(
          "fence.proxy.async; bar.sync 0; @%p1 bra DONE;\n"
          "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group{} [%d1, {}], [%r1+{}]{}; "
          "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:",
          copy.at.size(), copy.has_hint ? ".L2::cache_hint" : "", coordinates(copy.at),
          copy.shared_offset, copy.has_hint ? ", %d2" : "");
  cases.push_back(made_of(
      "store, " + name, text, copy,
      {input("shared", random_bytes(4 * kWords, 63)), output("tensor", tensor_bytes(copy.map))},
      1));
}

// A store before the tensor is an illegal instruction.
void add_both(std::vector<Case>& cases, const std::string& name, const Copy& copy) {
  add_load(cases, name, copy);
  if (std::all_of(copy.at.begin(), copy.at.end(), [](int at) { return at >= 0; }))
    add_store(cases, name, copy);
}

Copy swizzled(Copy copy, int swizzle) {
  copy.map.swizzle = swizzle;
  return copy;
}

constexpr const char* kSwizzles[] = {"no swizzle",
                                     "32 bytes",
                                     "64 bytes",
                                     "128 bytes",
                                     "128 bytes, atoms of 32",
                                     "128 bytes, atoms of 32 flipped",
                                     "128 bytes, atoms of 64"};
constexpr uint32_t kSpans[] = {64, 32, 64, 128, 128, 128, 128};

void add_swizzles(std::vector<Case>& cases) {
  for (const int swizzle : {0, 1, 2, 3}) {
    const auto at = static_cast<size_t>(swizzle);
    for (const int offset : {0, 128, 896, 3072}) {
      Copy copy =
          swizzled({tensor(TileType::kUint8, {512, 40}, {kSpans[at], 33}), {32, 3}}, swizzle);
      copy.shared_offset = offset;
      add_both(cases, fmt::format("{}, at {} in shared memory", kSwizzles[at], offset), copy);
    }
    // A box whose rows are shorter than the swizzle's span.
    if (swizzle > 1)
      add_both(cases, fmt::format("{}, rows of 32 bytes", kSwizzles[at]),
               swizzled({tensor(TileType::kUint8, {512, 40}, {32, 24}), {32, 3}}, swizzle));
    if (swizzle == 3)
      add_both(cases, "128 bytes, rows of 64 bytes",
               swizzled({tensor(TileType::kUint8, {512, 40}, {64, 24}), {32, 3}}, swizzle));
  }
}

void add_types(std::vector<Case>& cases) {
  for (int i = 0; i <= static_cast<int>(TileType::kTfloat32Ftz); ++i) {
    const auto type = TileType(i);
    const auto row = static_cast<uint32_t>(1024 / tile_type_bits(type));  // elements in 128 bytes
    const int step = 128 / tile_type_bits(type);
    Copy copy = swizzled({tensor(type, {3 * row, 20}, {row, 16}, 32), {step, 2}}, 3);
    add_both(cases, fmt::format("{}, 128 bytes", tile_type_name(type)), copy);
    copy.map.swizzle = 0;
    copy.at = {-step, -3};
    add_both(cases, fmt::format("{}, before the tensor", tile_type_name(type)), copy);
    copy.at = {static_cast<int>(3 * row) - step, 11};
    add_both(cases, fmt::format("{}, behind the tensor", tile_type_name(type)), copy);
    copy.map.fill = 1;
    if (i >= static_cast<int>(TileType::kFloat16))
      add_load(cases, fmt::format("{}, behind the tensor, NaN", tile_type_name(type)), copy);
  }
}

void add_ranks(std::vector<Case>& cases) {
  const std::vector<uint64_t> dims = {48, 7, 6, 5, 4};
  const std::vector<uint32_t> box = {32, 5, 3, 2, 3};
  for (size_t rank = 1; rank <= 5; ++rank) {
    const std::vector<uint64_t> some_dims(dims.begin(), dims.begin() + static_cast<int64_t>(rank));
    const std::vector<uint32_t> some_box(box.begin(), box.begin() + static_cast<int64_t>(rank));
    for (const int swizzle : {0, 2}) {
      if (swizzle != 0 && rank == 1) continue;
      const auto type = TileType::kBfloat16;
      Copy copy = swizzled({tensor(type, some_dims, some_box, 32), {}}, swizzle);
      const std::string name =
          fmt::format("{}d, {}", rank, kSwizzles[static_cast<size_t>(swizzle)]);
      copy.at = {8, 1, 2, 1, 1};
      copy.at.resize(rank);
      add_both(cases, name, copy);
      copy.at = {-8, -2, -1, -1, -2};
      copy.at.resize(rank);
      add_both(cases, name + ", before the tensor", copy);
      copy.at = {24, 4, 4, 4, 2};
      copy.at.resize(rank);
      add_both(cases, name + ", behind the tensor", copy);
      copy.at = {8, 1, 2, 1, 1};
      copy.at.resize(rank);
      copy.map.steps = {1, 2, 3, 2, 2};
      if (rank == 1) continue;
      add_both(cases, name + ", with steps", copy);
      copy.at = {-16, -1, -2, -1, 2};
      copy.at.resize(rank);
      add_both(cases, name + ", with steps, beyond the tensor", copy);
    }
  }
  Copy far = {tensor(TileType::kUint16, {64, 32}, {32, 8}), {1000, 0}};
  add_both(cases, "all of the box beyond the tensor", far);
  far.at = {0, -2147483647};
  add_both(cases, "a row far before the tensor", far);
  Copy stepped = {tensor(TileType::kUint16, {64, 32}, {32, 8}), {8, 4}};
  stepped.map.steps = {2, 1, 1, 1, 1};
  add_both(cases, "a step in dimension 0", stepped);
}

void add_hints(std::vector<Case>& cases) {
  for (int promotion = 0; promotion < 4; ++promotion) {
    Copy copy = swizzled({tensor(TileType::kUint8, {512, 40}, {128, 16}), {128, 9}}, 3);
    copy.map.l2_promotion = promotion;
    copy.has_hint = promotion % 2 == 1;
    add_both(cases,
             fmt::format("L2 promotion {}{}", promotion, copy.has_hint ? ", with a hint" : ""),
             copy);
  }
}

}  // namespace

void add_tensor_copies(std::vector<Case>& cases) {
  add_swizzles(cases);
  add_types(cases);
  add_ranks(cases);
  add_hints(cases);
}

}  // namespace octet::cross
