// SPDX-License-Identifier: Apache-2.0
// ggml as a peer (peer.h), through its public headers.
//
//   ggml_peer repack    MXFP4 in the buffer type CPU_REPACK, which ggml interleaves for its own kernels
//   ggml_peer plain     MXFP4 or NVFP4 as GGUF stores them
//
// The graph is that of a merged gate and up: MUL_MAT_ID, (factors,) (CLAMP twice,) SWIGLU or SWIGLU_OAI, MUL_MAT_ID, MUL by the
// weights, sum over the slots. FP32 in and out; MUL_MAT_ID rounds activations to 8 bits.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "ggml_blocks.h"
#include "peer.h"

namespace octet::baselines {
namespace {

constexpr size_t kMostNodes = 256;

// The buffer type of that name among the CPU's extra ones, or null.
ggml_backend_buffer_type_t extra_buffer_type(ggml_backend_t backend, std::string_view name) {
  const ggml_backend_dev_t device = ggml_backend_get_device(backend);
  const auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  if (list == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = list(device); type != nullptr && *type != nullptr;
       ++type) {
    if (ggml_backend_buft_name(*type) == name) return *type;
  }
  return nullptr;
}

// The graph of calls with so many rows and experts a row, and its tensors.
struct Graph {
  ggml_context* context = nullptr;
  ggml_cgraph* graph = nullptr;
  ggml_gallocr_t memory = nullptr;
  ggml_tensor* x = nullptr;        // [H, 1, T] f32, fastest first as ggml counts
  ggml_tensor* ids = nullptr;      // [k, T] i32
  ggml_tensor* weights = nullptr;  // [1, k, T] f32, times the factor of down
  ggml_tensor* factors = nullptr;  // [1, k, T] f32, of gate and up; NVFP4 only
  ggml_tensor* y = nullptr;        // [H, T] f32

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    ggml_gallocr_free(memory);
    ggml_free(context);
  }
};

class GgmlPeer final : public Peer {
 public:
  explicit GgmlPeer(bool repack) : repack_(repack), backend_(ggml_backend_cpu_init()) {}

  std::string load(const Layer& layer) override;
  double run(const Call& call) override;

 private:
  std::string allocate();
  void fill(ggml_tensor* tensor, const std::vector<std::vector<Matrix>>& experts);
  std::string copy_weights();
  std::string check_takes(ggml_tensor* weights);
  ggml_tensor* hidden(Graph& g, ggml_tensor* gate_up) const;
  Graph& graph_for(int64_t rows, int64_t top_k);

  bool repack_;
  ggml_backend_t backend_;
  ggml_context* context_ = nullptr;
  ggml_backend_buffer_t buffer_ = nullptr;
  ggml_tensor* w13_ = nullptr;  // [H, 2I, E], gate above up
  ggml_tensor* w2_ = nullptr;   // [I, H, E]
  Layer layer_;
  std::vector<float> gate_up_factors_, down_factors_;  // [E]
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Graph>> graphs_;
};

std::string GgmlPeer::allocate() {
  ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
  if (repack_) type = extra_buffer_type(backend_, "CPU_REPACK");
  if (type == nullptr) return "this ggml has no buffer type CPU_REPACK on this machine";
  context_ = ggml_init({ggml_tensor_overhead() * kMostNodes, nullptr, true});
  const ggml_type kind = layer_.nvfp4 ? GGML_TYPE_NVFP4 : GGML_TYPE_MXFP4;
  w13_ = ggml_new_tensor_3d(context_, kind, layer_.hidden, 2 * layer_.intermediate, layer_.experts);
  w2_ = ggml_new_tensor_3d(context_, kind, layer_.intermediate, layer_.hidden, layer_.experts);
  buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, type);
  if (buffer_ == nullptr) return "ggml cannot allocate the weights";
  ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  return {};
}

// The repacking buffer takes a tensor only as a whole.
void GgmlPeer::fill(ggml_tensor* tensor, const std::vector<std::vector<Matrix>>& experts) {
  std::vector<uint8_t> blocks(ggml_nbytes(tensor));
  uint8_t* to = blocks.data();
  for (const std::vector<Matrix>& matrices : experts) {
    for (const Matrix& m : matrices) to = write_blocks(m, to);
  }
  ggml_backend_tensor_set(tensor, blocks.data(), 0, blocks.size());
}

std::string GgmlPeer::copy_weights() {
  std::vector<std::vector<Matrix>> gate_up;
  std::vector<std::vector<Matrix>> down;
  for (int64_t i = 0; i < layer_.experts; ++i) {
    const Expert e = layer_.expert(i);
    if (e.gate_factor != e.up_factor) {
      return "gate and up of expert " + std::to_string(i) + " have different factors";
    }
    gate_up.push_back({e.gate, e.up});
    down.push_back({e.down});
    gate_up_factors_.push_back(e.gate_factor);
    down_factors_.push_back(e.down_factor);
  }
  fill(w13_, gate_up);
  fill(w2_, down);
  return {};
}

// Whether the backend multiplies these weights where they are.
std::string GgmlPeer::check_takes(ggml_tensor* weights) {
  ggml_tensor* x = ggml_new_tensor_3d(context_, GGML_TYPE_F32, weights->ne[0], 1, 1);
  ggml_tensor* ids = ggml_new_tensor_2d(context_, GGML_TYPE_I32, 1, 1);
  ggml_tensor* y = ggml_mul_mat_id(context_, weights, x, ids);
  if (ggml_backend_dev_supports_op(ggml_backend_get_device(backend_), y)) return {};
  return std::string("ggml does not take ") + ggml_type_name(weights->type) + " of " +
         std::to_string(weights->ne[1]) + " rows and " + std::to_string(weights->ne[0]) +
         " columns in " + ggml_backend_buft_name(ggml_backend_buffer_get_type(buffer_));
}

std::string GgmlPeer::load(const Layer& layer) {
  layer_ = layer;
  const int64_t unit = layer.nvfp4 ? 64 : 32;
  if (layer.hidden % unit != 0 || layer.intermediate % unit != 0) {
    return "H " + std::to_string(layer.hidden) + ", I " + std::to_string(layer.intermediate) +
           ", want multiples of " + std::to_string(unit);
  }
  if (!layer.is_plain_silu() && !(layer.beta == 1 && layer.has_limit())) {
    return "ggml has SwiGLU with alpha 1, beta 0, or with a limit and beta 1";
  }
  if (std::string why = allocate(); !why.empty()) return why;
  for (ggml_tensor* weights : {w13_, w2_}) {
    if (std::string why = check_takes(weights); !why.empty()) return why;
  }
  return copy_weights();
}

// SwiGLU of gate_up [2I, k, T].
ggml_tensor* GgmlPeer::hidden(Graph& g, ggml_tensor* gate_up) const {
  const int64_t columns = layer_.intermediate;
  const auto half = [&](size_t first) {
    return ggml_view_3d(g.context, gate_up, columns, gate_up->ne[1], gate_up->ne[2], gate_up->nb[1],
                        gate_up->nb[2], first * sizeof(float));
  };
  ggml_tensor* gate = half(0);
  ggml_tensor* up = half(static_cast<size_t>(columns));
  if (!layer_.is_plain_silu()) {
    return ggml_swiglu_oai(g.context, gate, up, layer_.alpha, layer_.limit);
  }
  if (layer_.has_limit()) {
    gate = ggml_clamp(g.context, gate, -INFINITY, layer_.limit);
    up = ggml_clamp(g.context, up, -layer_.limit, layer_.limit);
  }
  return ggml_swiglu_split(g.context, gate, up);
}

Graph& GgmlPeer::graph_for(int64_t rows, int64_t top_k) {
  std::unique_ptr<Graph>& slot = graphs_[{rows, top_k}];
  if (slot) return *slot;
  slot = std::make_unique<Graph>();
  Graph& g = *slot;
  g.context = ggml_init(
      {ggml_tensor_overhead() * kMostNodes + ggml_graph_overhead_custom(kMostNodes, false), nullptr,
       true});
  g.graph = ggml_new_graph_custom(g.context, kMostNodes, false);
  g.x = ggml_new_tensor_3d(g.context, GGML_TYPE_F32, layer_.hidden, 1, rows);
  g.ids = ggml_new_tensor_2d(g.context, GGML_TYPE_I32, top_k, rows);
  g.weights = ggml_new_tensor_3d(g.context, GGML_TYPE_F32, 1, top_k, rows);
  for (ggml_tensor* input : {g.x, g.ids, g.weights}) ggml_set_input(input);
  ggml_tensor* gate_up = ggml_mul_mat_id(g.context, w13_, g.x, g.ids);
  if (layer_.nvfp4) {
    g.factors = ggml_new_tensor_3d(g.context, GGML_TYPE_F32, 1, top_k, rows);
    ggml_set_input(g.factors);
    gate_up = ggml_mul(g.context, gate_up, g.factors);
  }
  ggml_tensor* out = ggml_mul_mat_id(g.context, w2_, hidden(g, gate_up), g.ids);
  out = ggml_mul(g.context, out, g.weights);
  for (int64_t j = 0; j < top_k; ++j) {
    ggml_tensor* one = ggml_view_2d(g.context, out, layer_.hidden, rows, out->nb[2],
                                    static_cast<size_t>(j) * out->nb[1]);
    g.y = j == 0 ? one : ggml_add(g.context, g.y, one);
  }
  if (top_k == 1) g.y = ggml_cont(g.context, g.y);
  ggml_set_output(g.y);
  ggml_build_forward_expand(g.graph, g.y);
  g.memory = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
  ggml_gallocr_alloc_graph(g.memory, g.graph);
  return g;
}

double GgmlPeer::run(const Call& call) {
  Graph& g = graph_for(call.rows, call.top_k);
  const auto slots = static_cast<size_t>(call.rows * call.top_k);
  std::vector<float> weights(slots);
  std::vector<float> factors(slots);
  for (size_t i = 0; i < slots; ++i) {
    const auto id = static_cast<size_t>(call.ids[i]);
    weights[i] = call.weights[i] * down_factors_[id];
    factors[i] = gate_up_factors_[id];
  }
  ggml_backend_tensor_set(g.x, call.x, 0, ggml_nbytes(g.x));
  ggml_backend_tensor_set(g.ids, call.ids, 0, ggml_nbytes(g.ids));
  ggml_backend_tensor_set(g.weights, weights.data(), 0, ggml_nbytes(g.weights));
  if (g.factors != nullptr) {
    ggml_backend_tensor_set(g.factors, factors.data(), 0, ggml_nbytes(g.factors));
  }
  ggml_backend_cpu_set_n_threads(backend_, call.threads);
  const double start = now_seconds();
  ggml_backend_graph_compute(backend_, g.graph);
  const double seconds = now_seconds() - start;
  ggml_backend_tensor_get(g.y, call.y, 0, ggml_nbytes(g.y));
  return seconds;
}

// Repacking says what it does, a line a tensor.
void print_errors(ggml_log_level level, const char* text, void* /*user*/) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace
}  // namespace octet::baselines

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "repack" && mode != "plain") {
    std::fprintf(stderr, "usage: ggml_peer repack|plain\n");
    return 2;
  }
  ggml_log_set(octet::baselines::print_errors, nullptr);
  octet::baselines::GgmlPeer peer(mode == "repack");
  return octet::baselines::serve(peer);
}
