// SPDX-License-Identifier: Apache-2.0
// ik_llama.cpp's ggml as a peer (peer.h): MXFP4 alone, NVFP4 it does not have.
//
//   ik_peer r8       its eight-row interleaved layout, on huge pages where there are any (its own option -thp)
//   ik_peer plain    as GGUF stores them
//
// The graph: the fused MOE_UP_GATE, MUL_MAT_ID, MUL_MULTI_ADD. FP32 in and out; activations are rounded to 8 bits. Its limit
// cuts silu(gate) where ours cuts gate: less than 5e-5 of a gate beyond a limit of 10.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ggml.h"
#include "ggml_blocks.h"
#include "peer.h"

// Not in its public headers, and the only way to that layout without its model loader.
extern "C" void iqk_repack_tensor(struct ggml_tensor* tensor);
// Called by parts that build.sh leaves out: attention.
extern "C" bool iqk_flash_attn_noalibi(int, int, float, ...) { std::abort(); }
extern "C" size_t iqk_fa_work_buffer_size(const struct ggml_tensor*, int) { return 0; }

namespace octet::baselines {
namespace {

constexpr size_t kSlackBytes = size_t{16} << 20;

struct Graph {
  ggml_context* context = nullptr;
  ggml_cgraph* graph = nullptr;
  ggml_tensor* x = nullptr;        // [H, 1, T] f32, fastest first as ggml counts
  ggml_tensor* ids = nullptr;      // [k, T] i32
  ggml_tensor* weights = nullptr;  // [1, k, T] f32
  ggml_tensor* y = nullptr;        // [H, T] f32
  std::vector<uint8_t> work;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { ggml_free(context); }
};

class IkPeer final : public Peer {
 public:
  explicit IkPeer(bool r8) : r8_(r8) {}

  std::string load(const Layer& layer) override;
  double run(const Call& call) override;

 private:
  std::string allocate();
  std::string repack();
  Graph& graph_for(int64_t rows, int64_t top_k);

  bool r8_;
  Layer layer_;
  ggml_tensor* gate_ = nullptr;  // [H, I, E]
  ggml_tensor* up_ = nullptr;    // [H, I, E]
  ggml_tensor* down_ = nullptr;  // [I, H, E]
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Graph>> graphs_;
};

std::string IkPeer::allocate() {
  const size_t bytes = static_cast<size_t>(layer_.experts * layer_.expert_bytes()) + kSlackBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "cannot allocate the weights";
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish
  ggml_context* context = ggml_init({bytes, memory, false});
  const auto make = [&](int64_t cols, int64_t rows, const char* name) {
    ggml_tensor* t = ggml_new_tensor_3d(context, GGML_TYPE_MXFP4, cols, rows, layer_.experts);
    return ggml_set_name(t, name);  // repacking looks at the names
  };
  gate_ = make(layer_.hidden, layer_.intermediate, "blk.0.ffn_gate_exps.weight");
  up_ = make(layer_.hidden, layer_.intermediate, "blk.0.ffn_up_exps.weight");
  down_ = make(layer_.intermediate, layer_.hidden, "blk.0.ffn_down_exps.weight");
  return {};
}

std::string IkPeer::repack() {
  for (ggml_tensor* t : {gate_, up_, down_}) {
    const ggml_type before = t->type;
    iqk_repack_tensor(t);
    if (t->type == before) return std::string("it does not repack ") + t->name;
  }
  return {};
}

std::string IkPeer::load(const Layer& layer) {
  layer_ = layer;
  if (layer.nvfp4) return "it has no NVFP4";
  constexpr int64_t kUnit = 32;
  if (layer.hidden % kUnit != 0 || layer.intermediate % kUnit != 0) {
    return "H " + std::to_string(layer.hidden) + ", I " + std::to_string(layer.intermediate) +
           ", want multiples of 32";
  }
  const bool gpt_oss = layer.alpha == 1.702F && layer.beta == 1 && layer.limit == 7;
  if (!layer.is_plain_silu() && !gpt_oss) {
    return "it has SwiGLU with alpha 1, beta 0, or gpt-oss's alpha 1.702, beta 1, limit 7";
  }
  if (std::string why = allocate(); !why.empty()) return why;
  const auto at = [](ggml_tensor* t, int64_t expert) {
    return static_cast<uint8_t*>(t->data) + static_cast<size_t>(expert) * t->nb[2];
  };
  for (int64_t i = 0; i < layer.experts; ++i) {
    const Expert e = layer.expert(i);
    write_blocks(e.gate, at(gate_, i));
    write_blocks(e.up, at(up_, i));
    write_blocks(e.down, at(down_, i));
  }
  return r8_ ? repack() : std::string();
}

Graph& IkPeer::graph_for(int64_t rows, int64_t top_k) {
  std::unique_ptr<Graph>& slot = graphs_[{rows, top_k}];
  if (slot) return *slot;
  slot = std::make_unique<Graph>();
  Graph& g = *slot;
  const auto outputs =
      static_cast<size_t>(rows * (top_k + 2) * (layer_.hidden + layer_.intermediate));
  g.context = ggml_init({kSlackBytes + outputs * sizeof(float), nullptr, false});
  g.graph = ggml_new_graph(g.context);
  g.x = ggml_new_tensor_3d(g.context, GGML_TYPE_F32, layer_.hidden, 1, rows);
  g.ids = ggml_new_tensor_2d(g.context, GGML_TYPE_I32, top_k, rows);
  g.weights = ggml_new_tensor_3d(g.context, GGML_TYPE_F32, 1, top_k, rows);
  const bool oai = !layer_.is_plain_silu();
  ggml_tensor* h = ggml_moe_up_gate(g.context, up_, gate_, g.x, g.ids,
                                    oai ? GGML_UNARY_OP_SWIGLU_OAI : GGML_UNARY_OP_SILU);
  // Its model graphs set the limit in the same way.
  if (!oai && layer_.has_limit()) std::memcpy(h->op_params + 1, &layer_.limit, sizeof(float));
  ggml_tensor* rows_out = ggml_mul_mat_id(g.context, down_, h, g.ids);
  g.y = ggml_mul_multi_add(g.context, rows_out, g.weights);
  ggml_build_forward_expand(g.graph, g.y);
  return g;
}

double IkPeer::run(const Call& call) {
  Graph& g = graph_for(call.rows, call.top_k);
  ggml_cplan plan = ggml_graph_plan(g.graph, call.threads);
  g.work.resize(std::max(g.work.size(), plan.work_size));
  plan.work_data = g.work.data();
  std::memcpy(g.x->data, call.x, ggml_nbytes(g.x));
  std::memcpy(g.ids->data, call.ids, ggml_nbytes(g.ids));
  std::memcpy(g.weights->data, call.weights, ggml_nbytes(g.weights));
  const double start = now_seconds();
  ggml_graph_compute(g.graph, &plan);
  const double seconds = now_seconds() - start;
  std::memcpy(call.y, g.y->data, ggml_nbytes(g.y));
  return seconds;
}

}  // namespace
}  // namespace octet::baselines

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "r8" && mode != "plain") {
    std::fprintf(stderr, "usage: ik_peer r8|plain\n");
    return 2;
  }
  octet::baselines::IkPeer peer(mode == "r8");
  return octet::baselines::serve(peer);
}
