// Heavy unit: autograd's nodes.
#include "model/ops/linear.h"

#include "kernels/gelu.h"
#include "model/ops/autocast.h"
#include "model/ops/node.h"
#include "model/ops/rows.h"
#include "tensor/matmul.h"

namespace lockstep::model::ops {
namespace {

using tensor::Elements;
using tensor::elements_of;
using tensor::multiply;
using tensor::mutable_elements_of;
using tensor::MutableElements;
using tensor::StagedElements;

bool takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return fused_kernels_apply({&x, &weight, &bias}) && x.dim() >= 1 && weight.dim() == 2;
}

struct Sizes {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

Sizes sizes_of(const at::Tensor& x, const at::Tensor& weight, WeightLayout layout) {
  const int64_t in = weight.size(layout == WeightLayout::in_out ? 0 : 1);
  const int64_t out = weight.size(layout == WeightLayout::in_out ? 1 : 0);
  TORCH_CHECK(x.size(-1) == in, "linear: the input's last dim is ", x.size(-1), ", the weight takes ", in);
  return {row_count(x), in, out};
}

std::vector<int64_t> result_shape(const at::Tensor& x, int64_t out) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  return shape;
}

class LinearNode final : public FirstOrderNode {
 public:
  [[nodiscard]] std::string name() const override { return derivative_.defined() ? "linear_gelu" : "linear"; }

  void keep(const at::Tensor& x, const at::Tensor& weight, WeightLayout layout) {
    x_ = SavedVariable(x, false);
    weight_ = SavedVariable(weight, false);
    layout_ = layout;
  }
  void keep_derivative(at::Tensor derivative) { derivative_ = std::move(derivative); }

 protected:
  variable_list backward(at::Tensor dy) override {
    const at::Tensor x = x_.unpack();
    const at::Tensor weight = weight_.unpack();
    const Sizes size = sizes_of(x, weight, layout_);
    const bool in_out = layout_ == WeightLayout::in_out;
    const bool wants_bias = task_should_compute_output(2);
    variable_list result(3);
    RunSums bias_sums(wants_bias ? size.rows : 0, wants_bias ? size.out : 0);
    const at::Tensor du = through_activation(std::move(dy), size, wants_bias ? &bias_sums : nullptr);
    if (wants_bias) result[2] = bias_sums.total(x.scalar_type());
    const Elements from = elements_of(du);
    if (task_should_compute_output(0)) {
      result[0] = at::empty(x.sizes(), x.options());
      multiply({.m = size.rows, .n = size.in, .k = size.out}, {from, size.out},
               {elements_of(weight), weight.size(1), in_out}, mutable_elements_of(result[0]), size.in);
    }
    if (task_should_compute_output(1)) {
      result[1] = at::empty(weight.sizes(), weight.options());
      const MutableElements to = mutable_elements_of(result[1]);
      const Elements input = elements_of(x);
      if (in_out) {
        multiply({.m = size.in, .n = size.out, .k = size.rows}, {input, size.in, true}, {from, size.out}, to, size.out);
      } else {
        multiply({.m = size.out, .n = size.in, .k = size.rows}, {from, size.out, true}, {input, size.in}, to, size.in);
      }
    }
    return result;
  }

  void forget() override {
    x_.reset_data();
    weight_.reset_data();
    derivative_.reset();
  }

 private:
  /// The gradient of the product, whose column sums are the bias's gradient.
  at::Tensor through_activation(at::Tensor dy, const Sizes& size, RunSums* bias_sums) {
    const Elements upstream = elements_of(dy);
    if (!derivative_.defined()) {
      if (bias_sums == nullptr) return dy;
      for_each_strip(size.rows, [&](int64_t run, int64_t first, int64_t rows) {
        std::vector<float> scratch;
        const float* values = tensor::widened(upstream.from(first * size.out), rows * size.out, scratch);
        kernels::add_column_sums({rows, size.out}, values, bias_sums->row(run));
      });
      return dy;
    }
    const at::Tensor du = sole_owner(dy) ? dy : last_use() ? derivative_ : at::empty_like(dy);
    const Elements derivative = elements_of(derivative_);
    const MutableElements to = mutable_elements_of(du);
    for_each_strip(size.rows, [&](int64_t run, int64_t first, int64_t rows) {
      const int64_t at = first * size.out;
      const int64_t numel = rows * size.out;
      std::vector<float> upstream_scratch;
      std::vector<float> derivative_scratch;
      const StagedElements result(to.from(at), numel);
      kernels::gelu_backward({rows, size.out}, tensor::widened(upstream.from(at), numel, upstream_scratch),
                             tensor::widened(derivative.from(at), numel, derivative_scratch), result.data(),
                             bias_sums == nullptr ? nullptr : bias_sums->row(run));
      result.commit();
    });
    return du;
  }

  SavedVariable x_, weight_;
  at::Tensor derivative_;  ///< Of the activation; undefined for none.
  WeightLayout layout_ = WeightLayout::in_out;
};

/// x times the weight, without bias.
void product_into(const at::Tensor& x, const at::Tensor& weight, WeightLayout layout, float beta, at::Tensor& y) {
  const Sizes size = sizes_of(x, weight, layout);
  multiply({.m = size.rows, .n = size.out, .k = size.in, .beta = beta}, {elements_of(x), size.in},
           {elements_of(weight), weight.size(1), layout == WeightLayout::out_in}, mutable_elements_of(y), size.out);
}

void fill_rows(const at::Tensor& bias, const Sizes& size, at::Tensor& y) {
  const Elements from = elements_of(bias);
  const MutableElements to = mutable_elements_of(y);
  for_each_strip(size.rows, [&](int64_t /*run*/, int64_t first, int64_t rows) {
    for (int64_t row = first; row < first + rows; ++row) tensor::convert(from, to.from(row * size.out), size.out);
  });
}

/// GELU of product + bias; the derivative, if wanted, takes the product's place.
void activate(const at::Tensor& product, const at::Tensor& bias, bool keep_derivative, const Sizes& size,
              const at::Tensor& y) {
  const at::Tensor shift = bias.defined() ? widened(bias) : bias;
  const float* added = shift.defined() ? shift.const_data_ptr<float>() : nullptr;
  const MutableElements from = mutable_elements_of(product);
  const MutableElements to = mutable_elements_of(y);
  for_each_strip(size.rows, [&](int64_t /*run*/, int64_t first, int64_t rows) {
    const int64_t at = first * size.out;
    const int64_t numel = rows * size.out;
    std::vector<float> scratch;
    const float* u = tensor::widened(elements_of(product).from(at), numel, scratch);
    const StagedElements result(to.from(at), numel);
    if (keep_derivative) {
      const StagedElements derivative(from.from(at), numel);
      kernels::gelu_forward({rows, size.out}, u, added, result.data(), derivative.data());
      derivative.commit();
    } else {
      kernels::gelu({rows, size.out}, u, added, result.data());
    }
    result.commit();
  });
}

at::Tensor linear_by_operators(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               WeightLayout layout) {
  const at::Tensor in_out = layout == WeightLayout::in_out ? weight : weight.t();
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor y = bias.defined() ? at::addmm(bias, rows, in_out) : at::mm(rows, in_out);
  return y.view(result_shape(x, in_out.size(1)));
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  if (const auto type = autocast_type(x)) {
    const WithoutAutocast off(x);
    return linear(off.cast(x, *type), off.cast(weight, *type), off.cast(bias, *type), layout);
  }
  if (!takes(x, weight, bias)) return linear_by_operators(x, weight, bias, layout);
  const Sizes size = sizes_of(x, weight, layout);
  const auto node = make_node<LinearNode>(x, weight, bias);
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor input = contiguous(x);
    const at::Tensor matrix = contiguous(weight);
    y = at::empty(result_shape(x, size.out), x.options());
    if (bias.defined()) fill_rows(contiguous(bias), size, y);
    product_into(input, matrix, layout, bias.defined() ? 1.0F : 0.0F, y);
    if (node) node->keep(input, matrix, layout);
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  if (const auto type = autocast_type(x)) {
    const WithoutAutocast off(x);
    return linear_gelu(off.cast(x, *type), off.cast(weight, *type), off.cast(bias, *type), layout);
  }
  if (!takes(x, weight, bias)) return at::gelu(linear_by_operators(x, weight, bias, layout), "tanh");
  const Sizes size = sizes_of(x, weight, layout);
  const auto node = make_node<LinearNode>(x, weight, bias);
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor input = contiguous(x);
    const at::Tensor matrix = contiguous(weight);
    at::Tensor product = at::empty(result_shape(x, size.out), x.options());
    product_into(input, matrix, layout, 0.0F, product);
    y = node ? at::empty_like(product) : product;
    activate(product, bias.defined() ? contiguous(bias) : bias, node != nullptr, size, y);
    if (node) {
      node->keep(input, matrix, layout);
      node->keep_derivative(std::move(product));
    }
  }
  if (node) torch::autograd::set_history(y, node);
  return y;
}

}  // namespace lockstep::model::ops
