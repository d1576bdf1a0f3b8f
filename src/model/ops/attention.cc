// Heavy unit: autograd's nodes.
#include "model/ops/attention.h"

#include <cmath>

#include "kernels/attention.h"
#include "model/ops/node.h"
#include "model/ops/rows.h"
#include "tensor/matmul.h"

namespace lockstep::model::ops {
namespace {

using tensor::multiply;

constexpr int64_t kBlockRows = 64;      // Queries at a time: their scores stay in the second-level cache.
constexpr int64_t kLongestKept = 512;   // Up to this T, backward reads the probabilities that forward kept.
constexpr int64_t kStridePadding = 16;  // Products like rows of whole cache lines.

struct Sizes {
  int64_t batch = 0;
  int64_t length = 0;
  int64_t heads = 0;
  int64_t head_width = 0;

  [[nodiscard]] int64_t width() const { return heads * head_width; }
  [[nodiscard]] int64_t qkv_stride() const { return 3 * width(); }
  [[nodiscard]] float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width))); }
};

/// One block of queries: its rows, the keys that it sees, and where its probabilities lie in a head's.
struct Block {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t keys = 0;
  int64_t stride = 0;
  int64_t offset = 0;

  [[nodiscard]] kernels::CausalBlock causal() const {
    return {.rows = rows, .columns = keys, .stride = stride, .visible = first + 1};
  }
};

std::vector<Block> blocks_of(const Sizes& size) {
  std::vector<Block> result;
  int64_t offset = 0;
  for (int64_t first = 0; first < size.length; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, size.length - first);
    const int64_t keys = first + rows;
    const int64_t stride = (keys + kStridePadding - 1) / kStridePadding * kStridePadding;
    result.push_back({first, rows, keys, stride, offset});
    offset += rows * stride;
  }
  return result;
}

/// Where one head of one sequence lies in qkv, and in a result [batch, T, width].
struct Head {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t qkv_offset = 0;
  int64_t result_offset = 0;
};

Head head_at(const Sizes& size, const float* qkv, int64_t index) {
  const int64_t column = index % size.heads * size.head_width;
  const int64_t row = index / size.heads * size.length;
  const int64_t offset = row * size.qkv_stride() + column;
  const float* q = qkv + offset;
  return {q, q + size.width(), q + 2 * size.width(), offset, row * size.width() + column};
}

void probabilities_of(const Sizes& size, const Head& head, const Block& block, float* out) {
  const int64_t stride = size.qkv_stride();
  multiply({.m = block.rows, .n = block.keys, .k = size.head_width, .alpha = size.scale()},
           {head.q + block.first * stride, stride}, {head.k, stride, true}, out, block.stride);
  kernels::causal_softmax(block.causal(), out);
}

class AttentionNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return "causal_self_attention"; }

  void keep(const at::Tensor& qkv, const Sizes& size, at::Tensor probabilities) {
    qkv_ = SavedVariable(qkv, false);
    size_ = size;
    probabilities_ = std::move(probabilities);
  }

 protected:
  variable_list backward(at::Tensor dy) override {
    const at::Tensor qkv = qkv_.unpack();
    const at::Tensor result = at::empty(qkv.sizes(), qkv.options());
    const auto blocks = blocks_of(size_);
    const int64_t head_numel = blocks.back().offset + blocks.back().rows * blocks.back().stride;
    const auto* kept = probabilities_.defined() ? probabilities_.const_data_ptr<float>() : nullptr;
    const auto* from = qkv.const_data_ptr<float>();
    const auto* upstream = dy.const_data_ptr<float>();
    auto* to = result.mutable_data_ptr<float>();
    const int64_t block_numel = kBlockRows * blocks.back().stride;
    at::parallel_for(0, size_.batch * size_.heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> gradients(static_cast<size_t>(block_numel));
      std::vector<float> recomputed(kept == nullptr ? static_cast<size_t>(block_numel) : 0);
      for (int64_t index = begin; index < end; ++index) {
        const Head head = head_at(size_, from, index);
        // From the last block, whose products cover all keys and so need no zeros to add to.
        for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
          const float* p = kept == nullptr ? recomputed.data() : kept + index * head_numel + block->offset;
          if (kept == nullptr) probabilities_of(size_, head, *block, recomputed.data());
          block_backward(head, *block,
                         {.p = p,
                          .dy = upstream + head.result_offset,
                          .scratch = gradients.data(),
                          .dq = to + head.qkv_offset,
                          .beta = block == blocks.rbegin() ? 0.0F : 1.0F});
        }
      }
    });
    return {result};
  }

  void forget() override {
    qkv_.reset_data();
    probabilities_.reset();
  }

 private:
  struct BlockArrays {
    const float* p = nullptr;
    const float* dy = nullptr;
    float* scratch = nullptr;
    float* dq = nullptr;
    float beta = 0.0F;
  };

  void block_backward(const Head& head, const Block& block, const BlockArrays& arrays) const {
    const int64_t stride = size_.qkv_stride();
    const int64_t width = size_.width();
    const int64_t head_width = size_.head_width;
    const float* dy = arrays.dy + block.first * width;
    float* dk = arrays.dq + width;
    float* dv = dk + width;
    const tensor::Product by_keys{.m = block.keys, .n = head_width, .k = block.rows, .beta = arrays.beta};
    multiply(by_keys, {arrays.p, block.stride, true}, {dy, width}, dv, stride);
    multiply({.m = block.rows, .n = block.keys, .k = head_width}, {dy, width}, {head.v, stride, true}, arrays.scratch,
             block.stride);
    kernels::causal_softmax_backward(block.causal(), arrays.p, size_.scale(), arrays.scratch);
    multiply({.m = block.rows, .n = head_width, .k = block.keys}, {arrays.scratch, block.stride}, {head.k, stride},
             arrays.dq + block.first * stride, stride);
    multiply(by_keys, {arrays.scratch, block.stride, true}, {head.q + block.first * stride, stride}, dk, stride);
  }

  SavedVariable qkv_;
  Sizes size_;
  at::Tensor probabilities_;  ///< Undefined where backward computes them again.
};

at::Tensor attention_by_operators(const at::Tensor& qkv, const Sizes& size, double dropout) {
  const auto parts = qkv.split(size.width(), 2);
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({size.batch, size.length, size.heads, size.head_width}).transpose(1, 2);
  };
  const at::Tensor mixed = at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                                            /*attn_mask=*/{}, dropout, /*is_causal=*/true);
  return mixed.transpose(1, 2).reshape({size.batch, size.length, size.width()});
}

void attend(const Sizes& size, const float* qkv, float* kept, float* y) {
  const auto blocks = blocks_of(size);
  const int64_t head_numel = blocks.back().offset + blocks.back().rows * blocks.back().stride;
  at::parallel_for(0, size.batch * size.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(kept == nullptr ? static_cast<size_t>(kBlockRows * blocks.back().stride) : 0);
    for (int64_t index = begin; index < end; ++index) {
      const Head head = head_at(size, qkv, index);
      for (const Block& block : blocks) {
        float* p = kept == nullptr ? scratch.data() : kept + index * head_numel + block.offset;
        probabilities_of(size, head, block, p);
        multiply({.m = block.rows, .n = size.head_width, .k = block.keys}, {p, block.stride},
                 {head.v, size.qkv_stride()}, y + head.result_offset + block.first * size.width(), size.width());
      }
    }
  });
}

}  // namespace

at::Tensor causal_self_attention(const at::Tensor& qkv, int64_t heads, double dropout) {
  TORCH_CHECK(qkv.dim() == 3 && heads > 0 && qkv.size(2) % (3 * heads) == 0,
              "causal_self_attention: the input must be [batch, T, 3 * width] with a width of ", heads,
              " equal heads, not ", qkv.sizes());
  const Sizes size{qkv.size(0), qkv.size(1), heads, qkv.size(2) / (3 * heads)};
  if (!fused_kernels_apply({&qkv}) || dropout > 0 || qkv.numel() == 0)
    return attention_by_operators(qkv, size, dropout);
  const auto node = make_node<AttentionNode>(qkv);
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor input = contiguous(qkv);
    y = at::empty({size.batch, size.length, size.width()}, qkv.options());
    at::Tensor kept;
    if (node && size.length <= kLongestKept) {
      const Block last = blocks_of(size).back();
      kept = at::empty({size.batch * size.heads, last.offset + last.rows * last.stride}, qkv.options());
    }
    attend(size, input.const_data_ptr<float>(), kept.defined() ? kept.mutable_data_ptr<float>() : nullptr,
           y.mutable_data_ptr<float>());
    if (node) node->keep(input, size, std::move(kept));
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
