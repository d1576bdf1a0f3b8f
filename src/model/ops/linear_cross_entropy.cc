// Heavy unit: autograd's nodes.
#include "model/ops/linear_cross_entropy.h"

#include <numeric>

#include "base/units.h"
#include "kernels/cross_entropy.h"
#include "model/ops/node.h"
#include "model/ops/rows.h"
#include "tensor/matmul.h"

namespace lockstep::model::ops {
namespace {

using tensor::multiply;

constexpr int64_t kChunkLogits = 16 * 1024 * 1024;  // At most 64 MiB of logits at a time.
constexpr int64_t kStridePadding = 16;              // Products like rows of whole cache lines.
constexpr int64_t kRowsPerTask = 16;

int64_t chunk_rows(int64_t rows, int64_t classes) {
  const int64_t most = std::max<int64_t>(kRowsPerTask, kChunkLogits / std::max<int64_t>(1, classes));
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return std::min(rows, base::round_up((rows + chunks - 1) / chunks, kRowsPerTask));
}

struct Chunked {
  at::Tensor loss{};
  at::Tensor hidden_gradient{};  ///< Undefined where not asked for, as the next.
  at::Tensor weight_gradient{};
};

struct Wanted {
  bool hidden_gradient = false;
  bool weight_gradient = false;
};

/// The loss and, where asked, its gradients.
Chunked run_chunks(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels, const Wanted& wanted) {
  const int64_t rows = hidden.size(0);
  const int64_t width = hidden.size(1);
  const int64_t classes = weight.size(0);
  const auto* label = labels.const_data_ptr<int64_t>();
  for (const int64_t* at = label; at < label + rows; ++at) {
    TORCH_CHECK_INDEX(*at == kernels::kIgnoredLabel || (*at >= 0 && *at < classes), "linear_cross_entropy: label ", *at,
                      " in row ", at - label, " is not one of the ", classes, " classes");
  }
  const int64_t counted = rows - std::count(label, label + rows, kernels::kIgnoredLabel);
  const auto scale = static_cast<float>(1.0 / static_cast<double>(counted));
  const int64_t most_rows = chunk_rows(rows, classes);
  const int64_t stride = base::round_up(classes, kStridePadding);
  const bool gradients = wanted.hidden_gradient || wanted.weight_gradient;
  const at::Tensor buffer = at::empty({most_rows, stride}, hidden.options());
  auto* logits = buffer.mutable_data_ptr<float>();
  const auto* inputs = hidden.const_data_ptr<float>();
  const auto* weights = weight.const_data_ptr<float>();
  std::vector<double> losses(static_cast<size_t>(rows));
  Chunked result;
  if (wanted.hidden_gradient) result.hidden_gradient = at::empty(hidden.sizes(), hidden.options());
  if (wanted.weight_gradient) result.weight_gradient = at::empty(weight.sizes(), weight.options());
  for (int64_t first = 0; first < rows; first += most_rows) {
    const int64_t count = std::min(most_rows, rows - first);
    const float* input = inputs + first * width;
    multiply({.m = count, .n = classes, .k = width}, {input, width}, {weights, width, true}, logits, stride);
    at::parallel_for(0, count, kRowsPerTask, [&](int64_t begin, int64_t end) {
      const kernels::LogitsShape shape{.rows = end - begin, .classes = classes, .stride = stride};
      float* chunk = logits + begin * stride;
      double* chunk_losses = losses.data() + first + begin;
      if (gradients) {
        kernels::cross_entropy(shape, chunk, label + first + begin, scale, chunk_losses);
      } else {
        kernels::cross_entropy_loss(shape, chunk, label + first + begin, chunk_losses);
      }
    });
    if (wanted.hidden_gradient) {
      multiply({.m = count, .n = width, .k = classes}, {logits, stride}, {weights, width},
               result.hidden_gradient.mutable_data_ptr<float>() + first * width, width);
    }
    if (wanted.weight_gradient) {
      multiply({.m = classes, .n = width, .k = count, .beta = first == 0 ? 0.0F : 1.0F}, {logits, stride, true},
               {input, width}, result.weight_gradient.mutable_data_ptr<float>(), width);
    }
  }
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  result.loss = at::scalar_tensor(sum / static_cast<double>(counted), hidden.options());
  return result;
}

class LinearCrossEntropyNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return "linear_cross_entropy"; }

  void keep(at::Tensor hidden_gradient, at::Tensor weight_gradient) {
    hidden_gradient_ = std::move(hidden_gradient);
    weight_gradient_ = std::move(weight_gradient);
    kept_ = true;
  }

 protected:
  variable_list backward(at::Tensor dy) override {
    TORCH_CHECK(kept_,
                "linear_cross_entropy: backward ran a second time, but its gradients are gone after the first; "
                "call the first one with retain_graph");
    const auto upstream = dy.item<float>();
    return {scaled(hidden_gradient_, upstream), scaled(weight_gradient_, upstream)};
  }

  void forget() override {
    hidden_gradient_.reset();
    weight_gradient_.reset();
    kept_ = false;
  }

 private:
  // In the last backward the kept gradient itself: the weight's then becomes its parameter's without a copy.
  at::Tensor scaled(at::Tensor& kept, float factor) const {
    if (!kept.defined()) return {};
    if (!last_use()) return kept * factor;
    at::Tensor result = std::move(kept);
    if (factor != 1.0F) result.mul_(factor);
    return result;
  }

  at::Tensor hidden_gradient_, weight_gradient_;
  bool kept_ = false;
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels) {
  if (!fused_kernels_apply({&hidden, &weight}) || !labels.is_cpu() || labels.scalar_type() != at::kLong ||
      hidden.numel() == 0 || weight.numel() == 0)
    return at::cross_entropy_loss(at::linear(hidden, weight).to(at::kFloat), labels);
  TORCH_CHECK(
      hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1) && labels.numel() == hidden.size(0),
      "linear_cross_entropy: expected hidden [n, width], weight [classes, width] and labels [n], not ", hidden.sizes(),
      ", ", weight.sizes(), " and ", labels.sizes());
  const auto node = make_node<LinearCrossEntropyNode>(hidden, weight);
  at::Tensor loss;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Wanted wanted{.hidden_gradient = node && hidden.requires_grad(),
                        .weight_gradient = node && weight.requires_grad()};
    Chunked result = run_chunks(contiguous(hidden), contiguous(weight), contiguous(labels), wanted);
    loss = std::move(result.loss);
    if (node) node->keep(std::move(result.hidden_gradient), std::move(result.weight_gradient));
  }
  if (node) torch::autograd::set_history(loss, node);
  return loss;
}

}  // namespace lockstep::model::ops
