// Heavy unit: autograd's nodes.
#include "model/ops/layer_norm.h"

#include "kernels/norm.h"
#include "model/ops/node.h"
#include "model/ops/rows.h"

namespace lockstep::model::ops {
namespace {

class LayerNormNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return "layer_norm"; }

  void keep(const at::Tensor& x, const at::Tensor& weight, std::vector<float> mean, std::vector<float> rstd) {
    x_ = SavedVariable(x, false);
    weight_ = SavedVariable(weight, false);
    mean_ = std::move(mean);
    rstd_ = std::move(rstd);
  }

 protected:
  variable_list backward(at::Tensor dy) override {
    const at::Tensor x = x_.unpack();
    const at::Tensor weight = weight_.unpack();
    const int64_t columns = weight.numel();
    const int64_t rows = row_count(x);
    const at::Tensor dx = sole_owner(dy) ? dy : at::empty_like(dy);
    RunSums weight_sums(rows, columns);
    RunSums bias_sums(rows, columns);
    const auto* upstream = dy.const_data_ptr<float>();
    const auto* from = x.const_data_ptr<float>();
    const auto* scale = weight.const_data_ptr<float>();
    auto* to = dx.mutable_data_ptr<float>();
    for_each_run(rows, [&](int64_t run, int64_t first, int64_t run_rows) {
      kernels::layer_norm_backward({run_rows, columns}, {.dy = upstream + first * columns,
                                                         .x = from + first * columns,
                                                         .weight = scale,
                                                         .mean = mean_.data() + first,
                                                         .rstd = rstd_.data() + first,
                                                         .dx = to + first * columns,
                                                         .weight_gradient = weight_sums.row(run),
                                                         .bias_gradient = bias_sums.row(run)});
    });
    return {dx, task_should_compute_output(1) ? weight_sums.total() : at::Tensor(),
            task_should_compute_output(2) ? bias_sums.total() : at::Tensor()};
  }

  void forget() override {
    x_.reset_data();
    weight_.reset_data();
  }

 private:
  SavedVariable x_, weight_;
  std::vector<float> mean_, rstd_;  ///< One per row.
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  const int64_t columns = x.size(-1);
  if (!fused_kernels_apply({&x, &weight, &bias}) || !weight.defined() || columns == 0)
    return at::layer_norm(x, {columns}, weight, bias, epsilon);
  TORCH_CHECK(weight.numel() == columns && (!bias.defined() || bias.numel() == columns),
              "layer_norm: weight and bias must have the input's last dim, ", columns);
  const auto node = make_node<LayerNormNode>(x, weight, bias);
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor input = contiguous(x);
    const at::Tensor scale = contiguous(weight);
    const at::Tensor shift = bias.defined() ? contiguous(bias) : bias;
    const int64_t rows = row_count(x);
    y = at::empty(x.sizes(), x.options());
    std::vector<float> mean(static_cast<size_t>(rows));
    std::vector<float> rstd(static_cast<size_t>(rows));
    const auto* from = input.const_data_ptr<float>();
    auto* to = y.mutable_data_ptr<float>();
    for_each_run(rows, [&](int64_t /*run*/, int64_t first, int64_t run_rows) {
      kernels::layer_norm_forward({run_rows, columns},
                                  {.x = from + first * columns,
                                   .weight = scale.const_data_ptr<float>(),
                                   .bias = shift.defined() ? shift.const_data_ptr<float>() : nullptr,
                                   .epsilon = epsilon,
                                   .y = to + first * columns,
                                   .mean = mean.data() + first,
                                   .rstd = rstd.data() + first});
    });
    if (node) node->keep(input, scale, std::move(mean), std::move(rstd));
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
