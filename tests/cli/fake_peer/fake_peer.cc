// SPDX-License-Identifier: Apache-2.0
// A peer (bench/baselines/peer.h) that does as its only word says: right in float64 with decoders of its own, or wrong in some way.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "peer.h"

namespace octet::baselines {
namespace {

constexpr double kElements[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6};

double scale_value(int64_t block, uint8_t code) {
  if (block == 32) return std::ldexp(1.0, code - 127);
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code < 128 ? size : -size;
}

// m . in, times the factor.
std::vector<double> multiply(const Matrix& m, double factor, const std::vector<double>& in) {
  std::vector<double> out(static_cast<size_t>(m.rows));
  for (int64_t r = 0; r < m.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < m.cols; ++c) {
      sum += kElements[m.code(r, c)] * scale_value(m.block, m.scale(r, c)) *
             in[static_cast<size_t>(c)];
    }
    out[static_cast<size_t>(r)] = factor * sum;
  }
  return out;
}

std::vector<double> expert_row(const Layer& layer, const Expert& e, const std::vector<double>& x) {
  const std::vector<double> gate = multiply(e.gate, e.gate_factor, x);
  std::vector<double> h = multiply(e.up, e.up_factor, x);
  const double limit = layer.limit;
  for (size_t i = 0; i < h.size(); ++i) {
    const double g = std::fmin(gate[i], limit);
    const double u = std::fmax(std::fmin(h[i], limit), -limit);
    h[i] = (u + layer.beta) * g / (1 + std::exp(-layer.alpha * g));
  }
  return multiply(e.down, e.down_factor, h);
}

double process_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class FakePeer final : public Peer {
 public:
  explicit FakePeer(std::string does) : does_(std::move(does)) {}

  std::string load(const Layer& layer) override {
    if (does_ == "exit-at-load") std::exit(3);
    if (does_ == "refuse") return "no layer on Mondays";
    if (does_ == "babble-at-load") answer("loading, please wait");
    layer_ = layer;
    const auto bytes = static_cast<size_t>(layer.experts * layer.expert_bytes());
    weights_.assign(layer.weights, layer.weights + bytes);
    layer_.weights = weights_.data();
    if (does_ == "spin") {
      std::thread([] {
        for (volatile uint64_t i = 0;;) i = i + 1;
      }).detach();
    }
    return {};
  }

  double run(const Call& call) override {
    if (does_ == "exit-at-call") std::exit(4);
    if (does_ == "crash-at-call") std::raise(SIGKILL);
    if (does_ == "babble-at-call") answer("done soon");
    if (does_ == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(150));
    check_was_stopped();
    const double start = now_seconds();
    if (does_ != "no-output") compute(call);
    if (does_ == "wrong-output") call.y[call.rows * layer_.hidden - 1] += 1e4F;
    const double seconds = now_seconds() - start;
    last_ = process_seconds();
    return does_ == "lie" ? 1e6 : does_ == "no-time" ? 0 : seconds + 1e-9;
  }

 private:
  // Its thread spins for ever; what it got between two calls must be little.
  void check_was_stopped() const {
    constexpr double kMost = 0.2;
    if (does_ == "spin" && last_ > 0 && process_seconds() - last_ > kMost) std::exit(7);
  }

  void compute(const Call& call) const {
    for (int64_t t = 0; t < call.rows; ++t) {
      const float* const x = call.x + t * layer_.hidden;
      std::vector<double> sum(static_cast<size_t>(layer_.hidden));
      for (int64_t slot = t * call.top_k; slot < (t + 1) * call.top_k; ++slot) {
        const std::vector<double> row =
            expert_row(layer_, layer_.expert(call.ids[slot]), {x, x + layer_.hidden});
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += call.weights[slot] * row[c];
      }
      for (size_t c = 0; c < sum.size(); ++c) {
        call.y[t * layer_.hidden + static_cast<int64_t>(c)] = static_cast<float>(sum[c]);
      }
    }
  }

  std::string does_;
  Layer layer_;
  std::vector<uint8_t> weights_;
  double last_ = 0;
};

}  // namespace
}  // namespace octet::baselines

int main(int argc, char** argv) {
  octet::baselines::FakePeer peer(argc > 1 ? argv[1] : "right");
  return octet::baselines::serve(peer);
}
