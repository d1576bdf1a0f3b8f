// Heavy unit: autograd's nodes.
#include "model/ops/layer_norm.h"

#include "kernels/norm.h"
#include "model/ops/autocast.h"
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
    const at::Tensor scale = widened(weight);
    const auto upstream = tensor::elements_of(dy);
    const auto from = tensor::elements_of(x);
    const auto to = tensor::mutable_elements_of(dx);
    for_each_strip(rows, [&](int64_t run, int64_t first, int64_t strip_rows) {
      const int64_t at = first * columns;
      const int64_t numel = strip_rows * columns;
      std::vector<float> dy_scratch;
      std::vector<float> x_scratch;
      const tensor::StagedElements result(to.from(at), numel);
      kernels::layer_norm_backward({strip_rows, columns}, {.dy = tensor::widened(upstream.from(at), numel, dy_scratch),
                                                           .x = tensor::widened(from.from(at), numel, x_scratch),
                                                           .weight = scale.const_data_ptr<float>(),
                                                           .mean = mean_.data() + first,
                                                           .rstd = rstd_.data() + first,
                                                           .dx = result.data(),
                                                           .weight_gradient = weight_sums.row(run),
                                                           .bias_gradient = bias_sums.row(run)});
      result.commit();
    });
    return {dx, task_should_compute_output(1) ? weight_sums.total(x.scalar_type()) : at::Tensor(),
            task_should_compute_output(2) ? bias_sums.total(x.scalar_type()) : at::Tensor()};
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
  if (autocast_type(x)) {
    const WithoutAutocast off(x);
    return layer_norm(off.cast(x, at::kFloat), off.cast(weight, at::kFloat), off.cast(bias, at::kFloat), epsilon);
  }
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
    const int64_t rows = row_count(x);
    y = at::empty(x.sizes(), x.options());
    std::vector<float> mean(static_cast<size_t>(rows));
    std::vector<float> rstd(static_cast<size_t>(rows));
    const at::Tensor wide_scale = widened(scale);
    const at::Tensor wide_shift = bias.defined() ? widened(contiguous(bias)) : bias;
    const auto from = tensor::elements_of(input);
    const auto to = tensor::mutable_elements_of(y);
    for_each_strip(rows, [&](int64_t /*run*/, int64_t first, int64_t strip_rows) {
      const int64_t at = first * columns;
      const int64_t numel = strip_rows * columns;
      std::vector<float> scratch;
      const tensor::StagedElements result(to.from(at), numel);
      kernels::layer_norm_forward({strip_rows, columns},
                                  {.x = tensor::widened(from.from(at), numel, scratch),
                                   .weight = wide_scale.const_data_ptr<float>(),
                                   .bias = wide_shift.defined() ? wide_shift.const_data_ptr<float>() : nullptr,
                                   .epsilon = epsilon,
                                   .y = result.data(),
                                   .mean = mean.data() + first,
                                   .rstd = rstd.data() + first});
      result.commit();
    });
    if (node) node->keep(input, scale, std::move(mean), std::move(rstd));
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
