// SPDX-License-Identifier: Apache-2.0
// One call of one kernel: a random layer, a routing that hurts, poisoned memory, and the reference's answer.
#pragma once

#include <fmt/format.h>
#include <string>
#include <vector>

#include "cpu/test_layer.h"
#include "dispatch/layer.h"
#include "reference/layer.h"

namespace octet::conformance {

enum class Routing { kRandom, kAllOnOne, kOneEmpty, kOutside, kDuplicates };
constexpr Routing kRoutings[] = {Routing::kRandom, Routing::kAllOnOne, Routing::kOneEmpty,
                                 Routing::kOutside, Routing::kDuplicates};
constexpr const char* kRoutingNames[] = {"random", "all on one", "one empty", "ids outside",
                                         "duplicates"};

struct KernelCase {
  const dispatch::Kernel* kernel;
  int64_t hidden = 64,
          intermediate = 48;  // of whole blocks, where the kernel takes no others: taken()
  int64_t start = 0;          // the slice's first column of a scale block
  int64_t tokens = 5;
  int64_t top_k = 3;
  Routing routing = Routing::kRandom;
  bool odd_scales = false;
  unsigned seed = 1;

  std::string text() const {
    return fmt::format("kernel {}, H {}, I {} from column {}, {} rows, k {}, routing {}{}, seed {}",
                       kernel->name, hidden, intermediate, start, tokens, top_k,
                       kRoutingNames[static_cast<int>(routing)], odd_scales ? ", odd scales" : "",
                       seed);
  }
};

// A row's experts and weights beside its x, so that rows can be put together anew.
struct Rows {
  std::vector<Bf16> x;
  std::vector<int32_t> ids;
  std::vector<float> weights;
  int64_t top_k;
  int64_t count() const { return std::ssize(ids) / top_k; }
};

// As the kernel takes it: whole scale blocks, where it has no others.
struct Slice {
  int64_t intermediate, start;
};
inline Slice taken(const dispatch::Kernel& kernel, Slice s) {
  return kernel.isa == dispatch::Isa::kSm90 ? Slice{round_up(s.intermediate, kMxBlock), 0} : s;
}

class CaseLayer {
 public:
  explicit CaseLayer(const KernelCase& c)
      : hidden_(c.hidden),
        made_({.weights = c.kernel->weights,
               .activations = c.kernel->activations,
               .hidden = c.hidden,
               .intermediate = taken(*c.kernel, {c.intermediate, c.start}).intermediate,
               .experts = kExperts,
               .start = taken(*c.kernel, {c.intermediate, c.start}).start,
               .biases = c.seed % 3 == 0,
               .swiglu = c.seed % 2 == 0 ? Swiglu{.limit = 2.0F} : Swiglu{},
               .seed = c.seed}),
        rng_(c.seed) {
    if (c.odd_scales) plant_odd_scales(*c.kernel);
    InlineExecutor one;
    auto loaded = dispatch::Layer::load(tensors(), {.kernel = std::string(c.kernel->name)}, one);
    if (!loaded.ok()) throw std::runtime_error(loaded.status().why);
    layer_.emplace(std::move(loaded).value());
  }

  checkpoint::LayerTensors tensors() const {
    return {.spec = made_.spec(), .experts = made_.experts};
  }
  const dispatch::Layer& layer() const { return *layer_; }

  Rows rows(const KernelCase& c) {
    Rows r{.x = made_.random_x(c.tokens), .ids = {}, .weights = {}, .top_k = c.top_k};
    r.ids = ids(c);
    std::uniform_real_distribution<float> uniform(0.05F, 1.0F);
    for (size_t i = 0; i < r.ids.size(); ++i) r.weights.push_back(uniform(rng_));
    return r;
  }

  // y, from workspace and outputs full of 0xFF.
  std::vector<Bf16> run(const Rows& r, Executor& executor) const {
    std::vector<Bf16> y(r.x.size(), Bf16{0xFFFF});
    const int64_t bytes = layer_->workspace_bytes(r.count(), r.top_k, executor.num_threads());
    Tensor workspace(Dtype::kU8, {bytes});
    std::memset(workspace.data(), 0xFF, static_cast<size_t>(bytes));
    dispatch::LayerCall call{.tokens = r.count(), .x = r.x.data()};
    call.given_ids = {r.ids.data(), false};
    call.given_weights = r.weights.data();
    call.given_top_k = r.top_k;
    call.y = y.data();
    const Status s = layer_->run(call, workspace.data(), bytes, executor);
    if (!s.ok()) throw std::runtime_error(s.why);
    return y;
  }

  std::vector<reference::Span> want(const Rows& r) const {
    return reference::layer(
        {.spec = made_.spec(),
         .tokens = r.count(),
         .top_k = r.top_k,
         .x = r.x.data(),
         .topk_ids = r.ids.data(),
         .topk_weights = r.weights.data(),
         .shared = nullptr,
         .expert = [&](int64_t e) { return made_.experts[static_cast<size_t>(e)]; },
         .made = nullptr,
         .sums = dispatch::sums_of(*layer_->selection().kernel)});
  }

  reference::Worst compare(const Rows& r, const std::vector<Bf16>& y) const {
    return reference::compare(want(r), y.data(), r.count(), hidden_);
  }

  static constexpr int64_t kExperts = 5;

 private:
  std::vector<int32_t> ids(const KernelCase& c) {
    std::vector<int32_t> all = made_.random_ids(c.tokens, c.top_k);  // some are other ranks'
    const auto below = [&](int64_t n) { return static_cast<int32_t>(rng_() % n); };
    for (size_t i = 0; i < all.size(); ++i) {
      const bool is_first = i % static_cast<size_t>(c.top_k) == 0;
      switch (c.routing) {
        case Routing::kRandom:
          all[i] %= kExperts;
          break;
        case Routing::kAllOnOne:
          all[i] = 2;
          break;
        case Routing::kOneEmpty:
          all[i] = 1 + below(kExperts - 1);
          break;
        case Routing::kOutside:
          if (below(3) == 0) all[i] = below(2) == 0 ? -1 : 1 << 30;
          break;
        case Routing::kDuplicates:
          if (!is_first) all[i] = below(2) == 0 ? all[i - 1] : below(kExperts);
          break;
      }
    }
    return all;
  }

  // The odd values of semantics.md section 1, one here and there: most outputs stay numbers.
  void plant_odd_scales(const dispatch::Kernel& kernel) {
    std::vector<uint8_t> odd = {0x00, 0x7F, 0x80, 0xB8, 0xFF};
    if (kernel.weights == WeightFormat::kMxfp4) odd = {0x00, 0xFE, 0xFF};
    if (kernel.isa == dispatch::Isa::kSm90) odd = {0x00, 0xC8, 0xFF};  // takes no infinite weights
    layouts::ExpertWeights& e = made_.experts[1];
    for (layouts::WeightView* w : {&e.gate, &e.up, &e.down}) {
      const int64_t bytes = w->rows * w->scale_stride;
      uint8_t* scales = made_.bytes(bytes);
      std::copy_n(w->scales, bytes, scales);
      for (const uint8_t code : odd) scales[rng_() % static_cast<uint64_t>(bytes)] = code;
      w->scales = scales;
    }
  }

  int64_t hidden_;
  cpu::TestLayer made_;
  std::mt19937 rng_;
  std::optional<dispatch::Layer> layer_;
};

}  // namespace octet::conformance
