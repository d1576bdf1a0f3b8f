// Heavy unit: autograd's nodes.
#include "model/ops/embedding.h"

#include "model/ops/node.h"
#include "model/ops/rows.h"

namespace lockstep::model::ops {
namespace {

class EmbeddingNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return "embedding"; }

  void keep(const at::Tensor& index, int64_t rows) {
    index_ = SavedVariable(index, false);
    rows_ = rows;
  }

 protected:
  variable_list backward(at::Tensor dy) override {
    const at::Tensor index = index_.unpack();
    const at::Tensor sums = at::embedding_dense_backward(dy.to(at::kFloat), index, rows_, /*padding_idx=*/-1,
                                                         /*scale_grad_by_freq=*/false);
    return {sums.to(dy.scalar_type())};
  }

  void forget() override { index_.reset_data(); }

 private:
  SavedVariable index_;
  int64_t rows_ = 0;
};

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& index) {
  if (!fused_kernels_apply({&weight}) || weight.scalar_type() == at::kFloat) return at::embedding(weight, index);
  const auto node = make_node<EmbeddingNode>(weight);
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    y = at::embedding(weight, index);
    if (node) node->keep(index, weight.size(0));
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
