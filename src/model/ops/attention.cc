// Heavy unit: autograd's nodes.
#include "model/ops/attention.h"

#include <cmath>

#include "kernels/attention.h"
#include "model/ops/autocast.h"
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

/// One head of one sequence: its queries, keys and values, rows of `stride`.
struct Head {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t stride = 0;
};

/// Where a head's columns start in a tensor [batch, T, row_width].
int64_t head_offset(const Sizes& size, int64_t index, int64_t row_width) {
  return index / size.heads * size.length * row_width + index % size.heads * size.head_width;
}

/// T rows of a head's columns in fp32: where they lie in a tensor of rows of `stride`, or widened into scratch.
struct Columns {
  const float* data = nullptr;
  int64_t stride = 0;
};

/// Scratch of one thread for the columns of one head after another.
class HeadReader {
 public:
  explicit HeadReader(const Sizes& size) : size_(size) {}

  Columns read(tensor::Elements from, int64_t stride) {
    if (from.type == at::kFloat) return {static_cast<const float*>(from.data), stride};
    scratch_.resize(static_cast<size_t>(size_.length * size_.head_width));
    for (int64_t row = 0; row < size_.length; ++row)
      tensor::convert(from.from(row * stride), {scratch_.data() + row * size_.head_width, at::kFloat},
                      size_.head_width);
    return {scratch_.data(), size_.head_width};
  }

 private:
  const Sizes& size_;
  std::vector<float> scratch_;
};

/// The same to write: the columns themselves, or scratch that commit() rounds into them.
class HeadWriter {
 public:
  HeadWriter(const Sizes& size, tensor::MutableElements to, int64_t stride) : size_(size), to_(to), stride_(stride) {
    if (to.type == at::kFloat) return;
    scratch_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(size.length * size.head_width));
  }

  [[nodiscard]] float* data() const { return scratch_ ? scratch_.get() : static_cast<float*>(to_.data); }
  [[nodiscard]] int64_t stride() const { return scratch_ ? size_.head_width : stride_; }
  void commit() const {
    if (!scratch_) return;
    for (int64_t row = 0; row < size_.length; ++row)
      tensor::convert({scratch_.get() + row * size_.head_width, at::kFloat}, to_.from(row * stride_), size_.head_width);
  }

 private:
  const Sizes& size_;
  tensor::MutableElements to_;
  int64_t stride_;
  std::unique_ptr<float[]> scratch_;
};

/// Reads heads of qkv, with scratch for the three parts.
class QkvReader {
 public:
  QkvReader(const Sizes& size, tensor::Elements qkv) : size_(size), qkv_(qkv), q_(size), k_(size), v_(size) {}

  Head read(int64_t index) {
    const int64_t stride = size_.qkv_stride();
    const tensor::Elements from = qkv_.from(head_offset(size_, index, stride));
    const Columns q = q_.read(from, stride);
    return {q.data, k_.read(from.from(size_.width()), stride).data, v_.read(from.from(2 * size_.width()), stride).data,
            q.stride};
  }

 private:
  const Sizes& size_;
  tensor::Elements qkv_;
  HeadReader q_, k_, v_;
};

void probabilities_of(const Sizes& size, const Head& head, const Block& block, float* out) {
  multiply({.m = block.rows, .n = block.keys, .k = size.head_width, .alpha = size.scale()},
           {head.q + block.first * head.stride, head.stride}, {head.k, head.stride, true}, out, block.stride);
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
    const tensor::Elements upstream = tensor::elements_of(dy);
    const tensor::MutableElements to = tensor::mutable_elements_of(result);
    const int64_t block_numel = kBlockRows * blocks.back().stride;
    at::parallel_for(0, size_.batch * size_.heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> gradients(static_cast<size_t>(block_numel));
      std::vector<float> recomputed(kept == nullptr ? static_cast<size_t>(block_numel) : 0);
      QkvReader heads(size_, tensor::elements_of(qkv));
      HeadReader upstreams(size_);
      for (int64_t index = begin; index < end; ++index) {
        const Head head = heads.read(index);
        const Columns head_dy = upstreams.read(upstream.from(head_offset(size_, index, size_.width())), size_.width());
        const tensor::MutableElements columns = to.from(head_offset(size_, index, size_.qkv_stride()));
        const HeadWriter dq(size_, columns, size_.qkv_stride());
        const HeadWriter dk(size_, columns.from(size_.width()), size_.qkv_stride());
        const HeadWriter dv(size_, columns.from(2 * size_.width()), size_.qkv_stride());
        // From the last block, whose products cover all keys and so need no zeros to add to.
        for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
          const float* p = kept == nullptr ? recomputed.data() : kept + index * head_numel + block->offset;
          if (kept == nullptr) probabilities_of(size_, head, *block, recomputed.data());
          block_backward(head, *block,
                         {.p = p,
                          .dy = head_dy,
                          .scratch = gradients.data(),
                          .dq = dq.data(),
                          .dk = dk.data(),
                          .dv = dv.data(),
                          .stride = dq.stride(),
                          .beta = block == blocks.rbegin() ? 0.0F : 1.0F});
        }
        dq.commit();
        dk.commit();
        dv.commit();
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
    Columns dy{};
    float* scratch = nullptr;
    float* dq = nullptr;
    float* dk = nullptr;
    float* dv = nullptr;
    int64_t stride = 0;  ///< Of dq, dk and dv.
    float beta = 0.0F;
  };

  void block_backward(const Head& head, const Block& block, const BlockArrays& arrays) const {
    const int64_t head_width = size_.head_width;
    const tensor::Operand dy{arrays.dy.data + block.first * arrays.dy.stride, arrays.dy.stride};
    const tensor::Product by_keys{.m = block.keys, .n = head_width, .k = block.rows, .beta = arrays.beta};
    multiply(by_keys, {arrays.p, block.stride, true}, dy, arrays.dv, arrays.stride);
    multiply({.m = block.rows, .n = block.keys, .k = head_width}, dy, {head.v, head.stride, true}, arrays.scratch,
             block.stride);
    kernels::causal_softmax_backward(block.causal(), arrays.p, size_.scale(), arrays.scratch);
    multiply({.m = block.rows, .n = head_width, .k = block.keys}, {arrays.scratch, block.stride}, {head.k, head.stride},
             arrays.dq + block.first * arrays.stride, arrays.stride);
    multiply(by_keys, {arrays.scratch, block.stride, true}, {head.q + block.first * head.stride, head.stride},
             arrays.dk, arrays.stride);
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
  const at::Tensor mixed = causal_attention({by_head(parts[0]), by_head(parts[1]), by_head(parts[2])}, dropout);
  return mixed.transpose(1, 2).reshape({size.batch, size.length, size.width()});
}

void attend(const Sizes& size, tensor::Elements qkv, float* kept, tensor::MutableElements y) {
  const auto blocks = blocks_of(size);
  const int64_t head_numel = blocks.back().offset + blocks.back().rows * blocks.back().stride;
  at::parallel_for(0, size.batch * size.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(kept == nullptr ? static_cast<size_t>(kBlockRows * blocks.back().stride) : 0);
    QkvReader heads(size, qkv);
    for (int64_t index = begin; index < end; ++index) {
      const Head head = heads.read(index);
      const HeadWriter result(size, y.from(head_offset(size, index, size.width())), size.width());
      for (const Block& block : blocks) {
        float* p = kept == nullptr ? scratch.data() : kept + index * head_numel + block.offset;
        probabilities_of(size, head, block, p);
        multiply({.m = block.rows, .n = size.head_width, .k = block.keys}, {p, block.stride}, {head.v, head.stride},
                 result.data() + block.first * result.stride(), result.stride());
      }
      result.commit();
    }
  });
}

}  // namespace

at::Tensor causal_attention(const AttentionHeads& heads, double dropout) {
  const at::Tensor& q = heads.queries;
  const bool widens = q.is_cpu() && q.scalar_type() != at::kFloat;
  std::optional<WithoutAutocast> off;
  if (autocast_type(q)) off.emplace(q);
  const auto wide = [widens](const at::Tensor& x) { return widens ? x.to(at::kFloat) : x; };
  const at::Tensor mixed = at::scaled_dot_product_attention(wide(q), wide(heads.keys), wide(heads.values),
                                                            /*attn_mask=*/{}, dropout, /*is_causal=*/true);
  return widens ? mixed.to(q.scalar_type()) : mixed;
}

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
      kept = at::empty({size.batch * size.heads, last.offset + last.rows * last.stride}, at::kFloat);
    }
    attend(size, tensor::elements_of(input), kept.defined() ? kept.mutable_data_ptr<float>() : nullptr,
           tensor::mutable_elements_of(y));
    if (node) node->keep(input, size, std::move(kept));
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
