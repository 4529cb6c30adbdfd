// SPDX-License-Identifier: Apache-2.0
// up_swiglu_mxfp8_mxfp4_sm90: the experts' first matrices, SwiGLU, and h in MXFP8.
//
//   x records (activation_record.h) ──┐                          kLoader: one thread            ┌──► h records of each tile
//   routing record (record.h) ────────┼──► ring of weight stages ──► kMultiply: 4 warpgroups ───┤
//   weights, w13 part (stream_fp4.h) ─────┘                                                         └──► tickets = 0, for the second kernel
//
// Shapes, alignment, errors: mxfp8_pair.h. Order of sums: work.h. Rounding: stage.cuh (products), swiglu_mxfp8.cuh. Truth: reference::layer.
//
// Hand-over       filled by   waited on by  says
// full[g][turn]   kLoader     warpgroup g   its next stage has landed
// empty[slot]     kMultiply   kLoader       the stage in this slot has been read, by four warps
// x_full          kLoader     kMultiply     the activations have landed
// parts_in        kMultiply   -             how many warpgroups have left their sums of a unit: the last one goes on with it
// blocks_in       kMultiply   -             how many warps have left their eight columns of h: the last one quantises
#include "sm90/launch.h"
#include "sm90/mxfp8_pair.h"
#include "sm90/mxfp8_pair_kernels.h"
#include "sm90/ptx/bulk_copy.cuh"
#include "sm90/ptx/warp_exchange.cuh"
#include "sm90/stage.cuh"
#include "sm90/swiglu_mxfp8.cuh"
#include "sm90/tiles.cuh"
#include "sm90/up_plan.h"

namespace octet::sm90 {
namespace {

constexpr const char* kName = "up_swiglu_mxfp8_mxfp4_sm90";

struct UpArgs {
  UpPlan plan;
  float alpha, beta;
  const uint8_t* weights;
  const float* limit;               // [E] or null
  const Bf16 *gate_bias, *up_bias;  // [E, I] or null
  const int32_t* record;
  int most_tiles;  // that the record has room for
  const uint8_t* x;
  uint8_t* h;
  int64_t h_tile_bytes;
  uint32_t* tickets;
};

// The CTA's shared memory, taken apart.
struct Shared {
  uint8_t* stages;      // [kSlots][slot_bytes]
  uint8_t* x;           // records of all of H
  float4* parts;        // [buffers][parts][4 warps][32 lanes]
  uint64_t* full;       // [4][kSlots]
  uint64_t* empty;      // [kSlots]
  uint64_t* x_full;     // [1]
  uint32_t* parts_in;   // [buffers][4 warps]
  uint32_t* blocks_in;  // [buffers]
  Tile* tiles;          // [kMostTiles]

  static constexpr int kBarriers = (UpPlan::kWarpgroups + 1) * UpPlan::kSlots + 1;
  static constexpr int kCounters = UpPlan::kMostBuffers * 5;
  static constexpr int kFixedBytes =
      kBarriers * 8 + kCounters * 4 + kMostTiles * static_cast<int>(sizeof(Tile));
  __host__ __device__ static int bytes(const UpPlan& p) {
    return UpPlan::kSlots * p.w13.slot_bytes() + p.x_room_bytes() + p.parts_bytes() + kFixedBytes;
  }
  __device__ Shared(uint8_t* base, const UpPlan& p)
      : stages(base),
        x(stages + UpPlan::kSlots * p.w13.slot_bytes()),
        parts(reinterpret_cast<float4*>(x + p.x_room_bytes())),
        full(reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(parts) + p.parts_bytes())),
        empty(full + UpPlan::kWarpgroups * UpPlan::kSlots),
        x_full(empty + UpPlan::kSlots),
        parts_in(reinterpret_cast<uint32_t*>(x_full + 1)),
        blocks_in(parts_in + UpPlan::kMostBuffers * 4),
        tiles(reinterpret_cast<Tile*>(blocks_in + UpPlan::kMostBuffers)) {}
};

__device__ __forceinline__ UnitRange own_units(const UpArgs& a) {
  return units_of(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
                  num_tiles(a.record) * a.plan.w13.units());
}

// All lanes of the loader's warp, before the others may touch a barrier.
__device__ void init(Shared& s, int lane) {
  for (int i = lane; i < Shared::kBarriers; i += cuda::kWarp) {
    const bool is_empty = &s.full[i] >= s.empty && &s.full[i] < s.x_full;
    ptx::init_barrier(s.full[i], is_empty ? 4 : 1);
  }
  for (int i = lane; i < Shared::kCounters; i += cuda::kWarp) s.parts_in[i] = 0;
  ptx::fence_barrier_init();
  __syncwarp();
}

// All lanes: the activations in pieces, CTAs beginning with different ones, since the same lines for all CTAs come one after the other.
__device__ void load_x(const UpArgs& a, Shared& s, int lane) {
  const int bytes = a.plan.x_bytes(), num_pieces = 16;
  const int piece = (bytes / num_pieces + 127) / 128 * 128;
  if (lane == 0) ptx::arrive_expecting(*s.x_full, static_cast<uint32_t>(bytes));
  __syncwarp();
  const int at = (lane + static_cast<int>(blockIdx.x)) % num_pieces * piece;
  if (lane >= num_pieces || at >= bytes) return;
  ptx::bulk_copy(s.x + at, a.x + at, static_cast<uint32_t>(min(piece, bytes - at)), *s.x_full,
                 ptx::evict_normal());
}

// Lane 0: brings every stage of the CTA's units, in the order in which warpgroups take them.
__device__ void load_weights(const UpArgs& a, Shared& s) {
  const UpPlan& p = a.plan;
  const UnitRange units = own_units(a);
  const uint64_t policy = ptx::evict_first();
  uint32_t turns = 0;  // four bytes: the next barrier of each warpgroup
  int slot = 0, leaf = 0;
  uint32_t parity = 1;
  int expert = record_word(a.record, 4 + units.first / p.w13.units());
  for (int u = units.first; u < units.last; ++u) {
    const uint8_t* from =
        a.weights + expert * p.expert_bytes + u % p.w13.units() * p.w13.unit_bytes;
    expert = record_word(a.record, 4 + min((u + 1) / p.w13.units(), a.most_tiles - 1));
    for (int stage = 0; stage < p.w13.num_stages; ++stage) {
      const int group = leaf % UpPlan::kWarpgroups;
      const auto bytes =
          static_cast<uint32_t>(p.w13.pairs_in(stage) * 4 * StageShape::kRecordBytes);
      const uint32_t turn = (turns >> (8 * group)) & 0xFF;
      uint64_t& full = s.full[group * UpPlan::kSlots + static_cast<int>(turn)];
      ptx::wait(s.empty[slot], parity);
      ptx::arrive_expecting(full, bytes);
      ptx::bulk_copy(s.stages + slot * p.w13.slot_bytes(), from, bytes, full, policy);
      from += bytes;
      turns += (turn + 1 < UpPlan::kSlots ? 1U : 0U - turn) << (8 * group);
      if (++slot == UpPlan::kSlots) {
        slot = 0;
        parity ^= 1;
      }
      if ((stage + 1) % p.leaves.stages_a_leaf == 0 || stage + 1 == p.w13.num_stages) ++leaf;
    }
  }
}

// All lanes of a warp: whether this one is the last of `of` to come to `counter`, which then starts again at 0. What the others wrote
// to shared memory before is visible to the last.
__device__ __forceinline__ bool comes_last(uint32_t& counter, uint32_t of, int lane) {
  __syncwarp();
  uint32_t before = 0;
  if (lane == 0) {
    __threadfence_block();
    before = atomicAdd(&counter, 1U);
    __threadfence_block();
    if (before == of - 1) counter = 0;
  }
  return __shfl_sync(cuda::kWholeWarp, before, 0) == of - 1;
}

// A block of 32 columns of h, f32 [4 quarters][8 tokens of 16][8] in shared memory, to the tile's records. Lane 4 g + t: token g, quarter t.
__device__ __forceinline__ void store_hidden(const UpArgs& a, const float* values, const Tile& tile,
                                             uint8_t* h, int block, int lane) {
  const int token = lane / 4, quarter = lane % 4;
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = values[quarter * 128 + token * 8 + i];
  QuantizedEight q = quantize_h(v);
  const int rows = rows_of(tile), padded = ActivationRecord::padded_rows(rows);
  const int before = __popc(tile.tokens & ((1U << token) - 1));
  const bool is_row = (tile.tokens >> token & 1) != 0;
  const int row = is_row ? before : rows + token - before;  // behind the rows: padding, of zeros
  if (row >= padded) return;
  if (!is_row) q = {0, 0, 127};
  const int k = block * static_cast<int>(kMxBlock);
  const auto store = [&](int at, const QuantizedEight& e) {
    *reinterpret_cast<uint2*>(h + ActivationRecord::code_at(padded, row, at + 8 * quarter)) =
        make_uint2(e.low, e.high);
    if (quarter == 0)
      *reinterpret_cast<uint32_t*>(h + ActivationRecord::scale_at(padded, row, at)) =
          scale_bits(e.code);
  };
  store(k, q);
  if (block == a.plan.w13.units() - 1 && block % 2 == 0)  // a last record that I half fills
    store(k + static_cast<int>(kMxBlock), {0, 0, 127});
}

// The warp that brings the last sums of its 16 rows: the tree, biases, SwiGLU; and the one that brings the block's last eight columns.
__device__ __forceinline__ void finish(const UpArgs& a, Shared& s, int unit, int buffer, int parts,
                                       int warp, int lane) {
  float4* sums = s.parts + buffer * parts * 128 + warp * 32;
  float4 p[kPartials];
#pragma unroll
  for (int j = 0; j < kPartials; ++j)
    p[j] = j < parts ? sums[j * 128 + lane] : make_float4(-0.0F, -0.0F, -0.0F, -0.0F);
  const int tile_idx = unit / a.plan.w13.units(), block = unit % a.plan.w13.units();
  const Tile tile = s.tiles[tile_idx];
  float gate[2] = {finished(p[0].x, p[1].x, p[2].x, p[3].x),
                   finished(p[0].y, p[1].y, p[2].y, p[3].y)};
  float up[2] = {finished(p[0].z, p[1].z, p[2].z, p[3].z),
                 finished(p[0].w, p[1].w, p[2].w, p[3].w)};
  const int col = block * static_cast<int>(kMxBlock) + warp * 8 + lane / 4;
  if (a.gate_bias != nullptr) {
    const int64_t at = int64_t{tile.expert} * a.plan.w13.units() * kMxBlock + col;
    const float g = bf16_at(a.gate_bias + at), b = bf16_at(a.up_bias + at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      gate[i] = __fadd_rn(gate[i], g);
      up[i] = __fadd_rn(up[i], b);
    }
  }
  Swiglu act{.alpha = a.alpha, .beta = a.beta};
  if (a.limit != nullptr) act.limit = __ldg(a.limit + tile.expert);
  // Where this warp's first sums were: 4 warps' [8 tokens][8 columns]
  float* values = reinterpret_cast<float*>(s.parts + buffer * parts * 128) + warp * 128;
  __syncwarp();  // every lane has read them
#pragma unroll
  for (int i = 0; i < 2; ++i)
    values[(2 * (lane % 4) + i) * 8 + lane / 4] = swiglu(act, gate[i], up[i]);
  if (!comes_last(s.blocks_in[buffer], 4, lane)) return;
  const float* all = reinterpret_cast<const float*>(s.parts + buffer * parts * 128);
  store_hidden(a, all, tile, a.h + tile_idx * a.h_tile_bytes, block, lane);
}

// A warpgroup's next barrier of its kSlots, and the parity of its phase.
struct Turn {
  int next = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++next < UpPlan::kSlots) return;
    next = 0;
    parity ^= 1;
  }
};

// A warp of the four warpgroups, which take leaves in turn; kPairs: of a whole stage.
template <int kPairs, bool kAnyScale>
__device__ __forceinline__ void multiply(const UpArgs& a, Shared& s, int warp, int lane) {
  const UpPlan& p = a.plan;
  const int group = warp / 4, quarter = warp % 4;
  const UnitRange units = own_units(a);
  Turn turn;
  int leaf0 = 0, stage0 = 0, buffer = 0;
#pragma unroll 1
  for (int u = units.first; u < units.last; ++u) {
    const int first = (group - leaf0) & (UpPlan::kWarpgroups - 1);
    float sum[4] = {-0.0F, -0.0F, -0.0F, -0.0F};  // p[first] of work.h
#pragma unroll 1
    for (int leaf = first; leaf < p.leaves.count; leaf += UpPlan::kWarpgroups) {
      float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
      const int begin = leaf * p.leaves.stages_a_leaf;
      const int end = min(begin + p.leaves.stages_a_leaf, p.w13.num_stages);
#pragma unroll 1
      for (int stage = begin; stage < end; ++stage) {
        const int slot = (stage0 + stage) % UpPlan::kSlots, pairs = p.w13.pairs_in(stage);
        ptx::wait(s.full[group * UpPlan::kSlots + turn.next], turn.parity);
        turn.advance();
        add_stage<kPairs, kAnyScale>(
            acc, s.stages + slot * p.w13.slot_bytes() + quarter * pairs * StageShape::kRecordBytes,
            s.x + stage * p.w13.stage_pairs * static_cast<int>(ActivationRecord::bytes(p.rows)),
            p.rows, pairs, lane);
        __syncwarp();
        if (lane == 0) ptx::arrive(s.empty[slot]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = __fadd_rn(sum[i], acc[i]);
    }
    if (first < p.leaves.count) {
      s.parts[(buffer * p.parts + first) * 128 + quarter * 32 + lane] =
          make_float4(sum[0], sum[1], sum[2], sum[3]);
      if (comes_last(s.parts_in[buffer * 4 + quarter], static_cast<uint32_t>(p.parts), lane))
        finish(a, s, u, buffer, p.parts, quarter, lane);
    }
    leaf0 += p.leaves.count;
    stage0 += p.w13.num_stages;
    buffer = buffer + 1 == p.buffers ? 0 : buffer + 1;
  }
}

template <int kPairs, bool kAnyScale>
__global__ __launch_bounds__(UpPlan::kRegisterThreads) void up_kernel(
    const __grid_constant__ UpArgs a) {
  extern __shared__ __align__(128) uint8_t memory[];
  Shared s(memory, a.plan);
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  constexpr int kReady = 1;  // barriers and tiles
  if (warp == UpPlan::kComputeThreads / cuda::kWarp) {
    init(s, lane);
    cuda::wait_for_previous();
    if (blockIdx.x == 0 && lane == 0) {
      *a.tickets = 0;
      __threadfence();
    }
    cuda::let_next_begin();
    load_x(a, s, lane);
    __syncwarp();
    ptx::arrive_threads(kReady, UpPlan::kThreads);
    if (lane == 0) load_weights(a, s);
    return;
  }
  cuda::wait_for_previous();
  read_tiles(s.tiles, a.record, a.most_tiles, static_cast<int>(threadIdx.x),
             UpPlan::kComputeThreads);
  ptx::sync_threads(kReady, UpPlan::kThreads);
  ptx::wait(*s.x_full, 0);
  multiply<kPairs, kAnyScale>(a, s, warp, lane);
}

using UpKernel = void (*)(UpArgs);
UpKernel kernel_of(int stage_pairs, bool has_wide_scales) {
  if (has_wide_scales) return up_kernel<0, true>;
  switch (stage_pairs) {
    case 10:
      return up_kernel<10, false>;
    case 9:
      return up_kernel<9, false>;
    case 8:
      return up_kernel<8, false>;
    default:
      return up_kernel<0, false>;
  }
}

}  // namespace

Status prepare_up() {
  for (const UpKernel kernel : {up_kernel<10, false>, up_kernel<9, false>, up_kernel<8, false>,
                                up_kernel<0, false>, up_kernel<0, true>}) {
    if (Status s = allow_shared_bytes(kName, kernel); !s.ok()) return s;
  }
  return {};
}

int up_shared_bytes(const cuda::ExpertGemmArgs& args) { return Shared::bytes(up_plan(args)); }

Status launch_up_mxfp8(const cuda::ExpertGemmArgs& args, const PairGrid& grid,
                       cudaStream_t stream) {
  const PairWorkspace at = pair_workspace(args);
  auto* const workspace = static_cast<uint8_t*>(args.workspace);
  const UpArgs a{.plan = up_plan(args),
                 .alpha = args.alpha,
                 .beta = args.beta,
                 .weights = args.weights.data,
                 .limit = args.weights.limit,
                 .gate_bias = args.weights.gate_bias,
                 .up_bias = args.weights.up_bias,
                 .record = args.record,
                 .most_tiles = static_cast<int>(
                     routing::max_ctas(args.tokens, args.top_k, args.weights.experts)),
                 .x = workspace + PairWorkspace::kXAt,
                 .h = workspace + at.h_at,
                 .h_tile_bytes = at.h_tile_bytes,
                 .tickets = reinterpret_cast<uint32_t*>(workspace + PairWorkspace::kTicketsAt)};
  return launch(kName, kernel_of(a.plan.w13.stage_pairs, args.weights.is_wide), grid.up,
                UpPlan::kThreads, Shared::bytes(a.plan), a, stream);
}

}  // namespace octet::sm90
