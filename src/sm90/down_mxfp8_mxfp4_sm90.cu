// SPDX-License-Identifier: Apache-2.0
// down_mxfp8_mxfp4_sm90: the experts' second matrices.
//
//   h records of each tile (activation_record.h) ──┐     kLoader: one thread                   ┌──► rows [T k, H] bf16, row = slot
//   record, permuted (cuda/route.cuh) ─────────────┼──► ring of stages ──► one warpgroup ──────┤
//   weights, w2 part (stream_fp4.h) ───────────────┘                                           └──► slot_row [T, k] i32
//
// CTAs are small: the first one of an SM fits beside the up kernel's and fills its ring with weights before h is there, the next ones come
// as that kernel's end. So memory stays busy between the two, and no CTA waits for another. Units (64 columns of y of a tile) go
// to who asks next: SMs whose up CTA ended late do less.
//
// Shapes, alignment, errors: mxfp8_pair.h. Order of sums: work.h. Rounding: stage.cuh, one to bf16. Truth: reference::layer.
//
// Hand-over    filled by          waited on by  says
// full[slot]   kLoader            kMultiply     weights and h of a stage have landed; `unit[slot]` is whose it is, -1: no more
// empty[slot]  kMultiply          kLoader       the stage in this slot has been read, by four warps
#include <cuda_bf16.h>

#include "routing/record.h"
#include "sm90/launch.h"
#include "sm90/mxfp8_pair.h"
#include "sm90/mxfp8_pair_kernels.h"
#include "sm90/ptx/bulk_copy.cuh"
#include "sm90/ptx/warp_exchange.cuh"
#include "sm90/stage.cuh"
#include "sm90/tiles.cuh"
#include "sm90/up_plan.h"

namespace octet::sm90 {
namespace {

constexpr const char* kName = "down_mxfp8_mxfp4_sm90";

struct DownTraits {
  static constexpr int kSlots = 3;
  static constexpr int kComputeThreads = 128;
  static constexpr int kThreads = kComputeThreads + 32;  // the loader's warp is the last
  static constexpr int kRegisterThreads = UpPlan::kRegisterThreads;
};

struct DownArgs {
  StageShape w2;
  Leaves leaves;
  const uint8_t* weights;  // of expert 0's w2
  int64_t expert_bytes;
  const Bf16* bias;  // [E, H] or null
  const int32_t *record, *permuted;
  int tokens, top_k, hidden;
  int most_tiles;  // that the record has room for
  const uint8_t* h;
  int64_t h_tile_bytes;
  int h_slot_bytes;  // of a whole stage, 8 rows
  uint32_t* tickets;
  Bf16* rows;
  int32_t* slot_row;
};

struct Shared {
  uint8_t* stages;   // [kSlots][slot_bytes]
  uint8_t* h;        // [kSlots][h_slot_bytes]
  uint64_t* full;    // [kSlots]
  uint64_t* empty;   // [kSlots]
  int32_t* unit;     // [kSlots]
  Tile* tiles;       // [kMostTiles]
  uint8_t* slots;    // [kMostTiles * 8]: padded row to slot
  int8_t* slot_row;  // [kMostTiles]

  static constexpr int kFixedBytes = DownTraits::kSlots * (2 * 8 + 8) +
                                     kMostTiles * static_cast<int>(sizeof(Tile)) + kMostTiles * 9;
  __host__ __device__ static int bytes(const DownArgs& a) {
    return DownTraits::kSlots * (a.w2.slot_bytes() + a.h_slot_bytes) + kFixedBytes;
  }
  __device__ Shared(uint8_t* base, const DownArgs& a)
      : stages(base),
        h(stages + DownTraits::kSlots * a.w2.slot_bytes()),
        full(reinterpret_cast<uint64_t*>(h + DownTraits::kSlots * a.h_slot_bytes)),
        empty(full + DownTraits::kSlots),
        unit(reinterpret_cast<int32_t*>(empty + DownTraits::kSlots)),
        tiles(reinterpret_cast<Tile*>(unit + 2 * DownTraits::kSlots)),
        slots(reinterpret_cast<uint8_t*>(tiles + kMostTiles)),
        slot_row(reinterpret_cast<int8_t*>(slots + kMostTiles * 8)) {}
};

constexpr int kTilesRead = 1;  // the barrier for it

// The loader's place in the work. A ticket is asked for one unit ahead, since the answer takes as long as a copy.
struct Cursor {
  int unit = 0, stage = 0, next_unit = 0;
  __device__ static int take(uint32_t* tickets) { return static_cast<int>(atomicAdd(tickets, 1U)); }
  __device__ void begin(uint32_t* tickets) {
    unit = take(tickets);
    next_unit = take(tickets);
  }
  __device__ void advance(const DownArgs& a) {
    if (++stage < a.w2.num_stages) return;
    stage = 0;
    unit = next_unit;
    next_unit = take(a.tickets);
  }
};

struct Loader {
  const DownArgs& a;
  Shared& s;
  int num_units;
  uint64_t weights_policy = ptx::evict_first(), h_policy = ptx::evict_normal();

  __device__ bool has(int unit) const { return unit < num_units; }
  // The stage's bytes are expected; the slot's arrival comes with h.
  __device__ void load_weights(int slot, int unit, int stage) {
    const int tile = unit / a.w2.units(), block = unit % a.w2.units();
    const int strips = a.w2.strips_in(block);
    const auto bytes =
        static_cast<uint32_t>(strips * a.w2.pairs_in(stage) * StageShape::kRecordBytes);
    const uint8_t* from = a.weights + record_word(a.record, 4 + tile) * a.expert_bytes +
                          block * a.w2.unit_bytes +
                          stage * (strips * a.w2.stage_pairs * StageShape::kRecordBytes);
    s.unit[slot] = unit;
    ptx::expect(s.full[slot], bytes);
    ptx::bulk_copy(s.stages + slot * a.w2.slot_bytes(), from, bytes, s.full[slot], weights_policy);
  }
  __device__ void load_h(int slot, int unit, int stage) {
    const int tile = unit / a.w2.units();
    const uint32_t record =
        ActivationRecord::bytes(ActivationRecord::padded_rows(rows_of(s.tiles[tile])));
    const uint32_t bytes = static_cast<uint32_t>(a.w2.pairs_in(stage)) * record;
    ptx::arrive_expecting(s.full[slot], bytes);
    ptx::bulk_copy(
        s.h + slot * a.h_slot_bytes,
        a.h + tile * a.h_tile_bytes + static_cast<uint32_t>(stage * a.w2.stage_pairs) * record,
        bytes, s.full[slot], h_policy);
  }
};

// Stages in the ring's order, and the slot of the next one.
struct Ring {
  int slot = 0;
  uint32_t parity = 1;  // at first every slot is free
  __device__ void advance() {
    if (++slot < DownTraits::kSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

// All lanes of the loader's warp, lane 0 loads: weights for the whole ring, then the wait for the up kernel, then the h that belongs to
// them, then stage by stage, then the word that there is no more.
__device__ void load(const DownArgs& a, Shared& s, int lane) {
  const bool leads = lane == 0;
  Loader loader{a, s, leads ? num_tiles(a.record) * a.w2.units() : 0};
  Cursor cursor;
  int unit[DownTraits::kSlots], stage[DownTraits::kSlots];
  if (leads) cursor.begin(a.tickets);
#pragma unroll
  for (int i = 0; i < DownTraits::kSlots; ++i) {
    unit[i] = cursor.unit;
    stage[i] = cursor.stage;
    if (!loader.has(cursor.unit)) continue;
    loader.load_weights(i, cursor.unit, cursor.stage);
    cursor.advance(a);
  }
  __syncwarp();
  ptx::sync_threads(kTilesRead, DownTraits::kThreads);
  cuda::wait_for_previous();
  if (!leads) return;
  Ring ring;
#pragma unroll
  for (int i = 0; i < DownTraits::kSlots; ++i) {
    if (!loader.has(unit[i])) continue;
    loader.load_h(i, unit[i], stage[i]);
    ring.advance();
  }
  for (; loader.has(cursor.unit); cursor.advance(a), ring.advance()) {
    ptx::wait(s.empty[ring.slot], ring.parity);
    loader.load_weights(ring.slot, cursor.unit, cursor.stage);
    loader.load_h(ring.slot, cursor.unit, cursor.stage);
  }
  ptx::wait(s.empty[ring.slot], ring.parity);
  s.unit[ring.slot] = -1;
  ptx::arrive(s.full[ring.slot]);
}

// Sums of a unit that has come to its end, 16 columns a warp, to the rows of its tile.
__device__ __forceinline__ void store_rows(const DownArgs& a, const Shared& s, int unit,
                                           const float (&sum)[4], int warp, int lane) {
  const int tile_idx = unit / a.w2.units(), block = unit % a.w2.units();
  if (warp >= a.w2.strips_in(block)) return;
  const Tile tile = s.tiles[tile_idx];
  const int column = block * 64 + warp * 16;
  float low = 0, high = 0;
  if (a.bias != nullptr) {
    const Bf16* bias =
        a.bias + int64_t{tile.expert} * a.hidden + column + layouts::stream_down_row(lane / 4);
    low = bf16_at(bias);
    high = bf16_at(bias + 2);
  }
  const auto pair = [](float x, float y) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&two);
  };
  const bool has_bias = a.bias != nullptr;
  const auto with = [&](float v, float b) { return has_bias ? __fadd_rn(v, b) : v; };
  const uint32_t first = ptx::transpose(pair(with(sum[0], low), with(sum[1], low)));
  const uint32_t second = ptx::transpose(pair(with(sum[2], high), with(sum[3], high)));
  const int row = lane / 4;
  if (row >= rows_of(tile)) return;
  const int slot = s.slots[tile_idx * 8 + row];
  *reinterpret_cast<uint2*>(a.rows + int64_t{slot} * a.hidden + column + lane % 4 * 4) =
      make_uint2(first, second);
}

// The warpgroup: stage by stage as they come; kPairs: of a whole stage.
template <int kPairs, bool kOneLeaf, bool kAnyScale>
__device__ __forceinline__ void multiply(const DownArgs& a, Shared& s, int warp, int lane) {
  Ring ring;
  ring.parity = 0;
#pragma unroll 1
  while (true) {
    constexpr int kSums = kOneLeaf ? 1 : kPartials;
    float p[kSums][4];
#pragma unroll
    for (auto& sums : p)
      for (float& v : sums) v = -0.0F;
    int unit = 0;
#pragma unroll 1
    for (int leaf = 0; leaf < (kOneLeaf ? 1 : a.leaves.count); ++leaf) {
      float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
      const int begin = leaf * a.leaves.stages_a_leaf,
                end = min(begin + a.leaves.stages_a_leaf, a.w2.num_stages);
#pragma unroll 1
      for (int stage = begin; stage < end; ++stage, ring.advance()) {
        ptx::wait(s.full[ring.slot], ring.parity);
        unit = s.unit[ring.slot];
        if (unit < 0) return;
        const int pairs = a.w2.pairs_in(stage);
        add_stage<kPairs, kAnyScale>(
            acc, s.stages + ring.slot * a.w2.slot_bytes() + warp * pairs * StageShape::kRecordBytes,
            s.h + ring.slot * a.h_slot_bytes,
            ActivationRecord::padded_rows(rows_of(s.tiles[unit / a.w2.units()])), pairs, lane);
        __syncwarp();
        if (lane == 0) ptx::arrive(s.empty[ring.slot]);
      }
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
        if (!kOneLeaf && j != leaf % kPartials) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) p[j][i] = __fadd_rn(p[j][i], acc[i]);
      }
    }
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] = kOneLeaf ? finished(p[0][i], -0.0F, -0.0F, -0.0F)
                        : finished(p[0][i], p[1 % kSums][i], p[2 % kSums][i], p[3 % kSums][i]);
    }
    store_rows(a, s, unit, sum, warp, lane);
  }
}

// slots[padded row] = its first slot, and slot_row; by the compute threads. A row that an id has twice has one token's slots.
__device__ void read_slots(const DownArgs& a, Shared& s, int thread) {
  if (thread >= a.tokens * a.top_k) return;
  const int row = __ldcg(a.permuted + thread);
  int first = thread;
  for (int i = thread - thread % a.top_k; i < thread; ++i)
    if (first == thread && __ldcg(a.permuted + i) == row) first = i;
  if (row >= 0 && first == thread) s.slots[row] = static_cast<uint8_t>(thread);
  s.slot_row[thread] = static_cast<int8_t>(row < 0 ? -1 : first);
}

template <int kPairs, bool kOneLeaf, bool kAnyScale>
__global__ __launch_bounds__(DownTraits::kRegisterThreads) void down_kernel(
    const __grid_constant__ DownArgs a) {
  extern __shared__ __align__(128) uint8_t memory[];
  Shared s(memory, a);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / cuda::kWarp,
            lane = thread % cuda::kWarp;
  cuda::let_next_begin();
  if (warp == DownTraits::kComputeThreads / cuda::kWarp) {
    if (lane < 2 * DownTraits::kSlots)
      ptx::init_barrier(s.full[lane], lane < DownTraits::kSlots ? 1 : 4);
    ptx::fence_barrier_init();
    __syncwarp();
    load(a, s, lane);
    return;
  }
  read_tiles(s.tiles, a.record, a.most_tiles, thread, DownTraits::kComputeThreads);
  read_slots(a, s, thread);
  ptx::sync_threads(kTilesRead, DownTraits::kThreads);
  cuda::wait_for_previous();
  if (blockIdx.x == 0 && thread < a.tokens * a.top_k) {
    a.slot_row[thread] = s.slot_row[thread];
  }
  multiply<kPairs, kOneLeaf, kAnyScale>(a, s, warp, lane);
}

using DownKernel = void (*)(DownArgs);
DownKernel kernel_of(int stage_pairs, bool has_one_leaf, bool is_wide) {
  if (is_wide) return down_kernel<0, false, true>;
  switch (stage_pairs) {
    case 10:
      return has_one_leaf ? down_kernel<10, true, false> : down_kernel<10, false, false>;
    case 9:
      return has_one_leaf ? down_kernel<9, true, false> : down_kernel<9, false, false>;
    case 8:
      return has_one_leaf ? down_kernel<8, true, false> : down_kernel<8, false, false>;
    default:
      return down_kernel<0, false, false>;
  }
}

}  // namespace

Status prepare_down() {
  for (const int pairs : {10, 9, 8, 0}) {
    for (const bool has_one_leaf : {true, false}) {
      for (const bool is_wide : {false, true}) {
        const Status s = allow_shared_bytes(kName, kernel_of(pairs, has_one_leaf, is_wide));
        if (!s.ok()) return s;
      }
    }
  }
  return {};
}

namespace {
DownArgs down_args(const cuda::ExpertGemmArgs& args) {
  const PairWorkspace at = pair_workspace(args);
  auto* const workspace = static_cast<uint8_t*>(args.workspace);
  const layouts::StreamSizes& sizes = args.weights.sizes;
  DownArgs a{.w2 = stage_shape(sizes.w2),
             .leaves = {},
             .weights = args.weights.data + sizes.w2_offset(),
             .expert_bytes = sizes.expert_bytes(),
             .bias = args.weights.down_bias,
             .record = args.record,
             .permuted = args.permuted,
             .tokens = static_cast<int>(args.tokens),
             .top_k = static_cast<int>(args.top_k),
             .hidden = static_cast<int>(args.hidden),
             .most_tiles =
                 static_cast<int>(routing::max_ctas(args.tokens, args.top_k, args.weights.experts)),
             .h = workspace + at.h_at,
             .h_tile_bytes = at.h_tile_bytes,
             .h_slot_bytes = 0,
             .tickets = reinterpret_cast<uint32_t*>(workspace + PairWorkspace::kTicketsAt),
             .rows = args.rows,
             .slot_row = args.slot_row};
  a.leaves = leaves_of(a.w2.num_stages);
  const auto record =
      static_cast<int>(ActivationRecord::bytes(ActivationRecord::padded_rows(a.tokens)));
  a.h_slot_bytes = a.w2.stage_pairs * record + static_cast<int>(ActivationRecord::kSlackBytes);
  return a;
}
}  // namespace

int down_shared_bytes(const cuda::ExpertGemmArgs& args) { return Shared::bytes(down_args(args)); }

Status launch_down_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid,
                         cudaStream_t stream) {
  const DownArgs a = down_args(args);
  return launch(kName, kernel_of(a.w2.stage_pairs, a.leaves.count == 1, args.weights.is_wide),
                grid.down, DownTraits::kThreads, Shared::bytes(a), a, stream);
}

}  // namespace octet::sm90
