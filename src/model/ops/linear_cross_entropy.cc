// Heavy unit: autograd's nodes.
#include "model/ops/linear_cross_entropy.h"

#include <numeric>

#include "base/units.h"
#include "kernels/cross_entropy.h"
#include "model/ops/autocast.h"
#include "model/ops/node.h"
#include "model/ops/rows.h"
#include "tensor/half_products.h"
#include "tensor/matmul.h"

namespace lockstep::model::ops {
namespace {

using tensor::multiply;

constexpr int64_t kChunkLogits = 16 * 1024 * 1024;  // At most 64 MiB of logits at a time.
constexpr int64_t kBlockWeights = 1024 * 1024;      // Widened at a time.
constexpr int64_t kStridePadding = 16;              // Products like rows of whole cache lines.
constexpr int64_t kRowsPerTask = 16;

int64_t chunk_rows(int64_t rows, int64_t classes) {
  const int64_t most = std::max<int64_t>(kRowsPerTask, kChunkLogits / std::max<int64_t>(1, classes));
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return std::min(rows, base::round_up((rows + chunks - 1) / chunks, kRowsPerTask));
}

struct Chunked {
  at::Tensor loss{};
  at::Tensor hidden_gradient{};  ///< In fp32, as the next; undefined where not asked for.
  at::Tensor weight_gradient{};
  float gradient_factor = 1.0F;  ///< Still to be multiplied in.
};

struct Wanted {
  bool hidden_gradient = false;
  bool weight_gradient = false;
};

/// Classes taken at once: all of them in fp32; a 16-bit weight is widened a block at a time.
struct ClassBlock {
  int64_t first = 0;
  int64_t count = 0;
  tensor::Elements weight{};
};

std::vector<ClassBlock> class_blocks(const at::Tensor& weight) {
  const int64_t classes = weight.size(0);
  const int64_t width = weight.size(1);
  const bool whole = weight.scalar_type() == at::kFloat || tensor::half_products() == tensor::HalfProducts::native;
  const int64_t most = whole ? classes : base::round_up(std::max<int64_t>(1, kBlockWeights / width), kStridePadding);
  std::vector<ClassBlock> result;
  for (int64_t first = 0; first < classes; first += most)
    result.push_back({first, std::min(most, classes - first), tensor::elements_of(weight).from(first * width)});
  return result;
}

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
  const auto of_mean = static_cast<float>(1.0 / static_cast<double>(counted));
  // Divided by the rows at once, small gradients would be lost in fp16 before a loss scale could lift them.
  const bool divides_late = hidden.scalar_type() != at::kFloat;
  const float scale = divides_late ? 1.0F : of_mean;
  const int64_t most_rows = chunk_rows(rows, classes);
  const int64_t stride = base::round_up(classes, kStridePadding);
  const bool gradients = wanted.hidden_gradient || wanted.weight_gradient;
  const at::Tensor buffer = at::empty({most_rows, stride}, at::kFloat);
  auto* logits = buffer.mutable_data_ptr<float>();
  const tensor::Elements inputs = tensor::elements_of(hidden);
  std::vector<double> losses(static_cast<size_t>(rows));
  Chunked result;
  if (divides_late) result.gradient_factor = of_mean;
  if (wanted.hidden_gradient) result.hidden_gradient = at::empty(hidden.sizes(), at::kFloat);
  if (wanted.weight_gradient) result.weight_gradient = at::empty(weight.sizes(), at::kFloat);
  const auto classes_blocks = class_blocks(weight);
  for (int64_t first = 0; first < rows; first += most_rows) {
    const int64_t count = std::min(most_rows, rows - first);
    const tensor::TypedOperand input{inputs.from(first * width), width};
    for (const ClassBlock& block : classes_blocks)
      multiply({.m = count, .n = block.count, .k = width}, input, {block.weight, width, true},
               {logits + block.first, at::kFloat}, stride);
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
      const tensor::MutableElements to = tensor::mutable_elements_of(result.hidden_gradient).from(first * width);
      for (const ClassBlock& block : classes_blocks)
        multiply({.m = count, .n = width, .k = block.count, .beta = block.first == 0 ? 0.0F : 1.0F},
                 {{logits + block.first, at::kFloat}, stride}, {block.weight, width}, to, width);
    }
    if (wanted.weight_gradient) {
      multiply({.m = classes, .n = width, .k = count, .beta = first == 0 ? 0.0F : 1.0F},
               {{logits, at::kFloat}, stride, true}, input, tensor::mutable_elements_of(result.weight_gradient), width);
    }
  }
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  result.loss = at::scalar_tensor(sum / static_cast<double>(counted), at::kFloat);
  return result;
}

class LinearCrossEntropyNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return "linear_cross_entropy"; }

  void keep(Chunked gradients, at::ScalarType type) {
    gradients_ = std::move(gradients);
    type_ = type;
    kept_ = true;
  }

 protected:
  variable_list backward(at::Tensor dy) override {
    TORCH_CHECK(kept_,
                "linear_cross_entropy: backward ran a second time, but its gradients are gone after the first; "
                "call the first one with retain_graph");
    const float factor = dy.item<float>() * gradients_.gradient_factor;
    return {scaled(gradients_.hidden_gradient, factor), scaled(gradients_.weight_gradient, factor)};
  }

  void forget() override {
    gradients_ = {};
    kept_ = false;
  }

 private:
  // In the last backward of fp32 the kept gradient itself: the weight's then becomes its parameter's without a copy.
  at::Tensor scaled(at::Tensor& kept, float factor) const {
    if (!kept.defined()) return {};
    at::Tensor result = last_use() ? std::move(kept) : kept.clone();
    if (factor != 1.0F) result.mul_(factor);
    return result.to(type_);
  }

  Chunked gradients_;
  at::ScalarType type_ = at::kFloat;
  bool kept_ = false;
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels) {
  if (const auto type = autocast_type(hidden)) {
    const WithoutAutocast off(hidden);
    return linear_cross_entropy(off.cast(hidden, *type), off.cast(weight, *type), labels);
  }
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
    if (node) node->keep(std::move(result), hidden.scalar_type());
  }
  if (node) torch::autograd::set_history(loss, node);
  return loss;
}

}  // namespace lockstep::model::ops
