#include "zero/gradient_reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/reduction.h"
#include "comm/sparse_mean.h"
#include "kernels/sums.h"
#include "zero/gradient_hooks.h"

namespace lockstep::zero {
namespace {

// Tags of the reducer's transfers; a bucket's reduce-scatter and all-gather follow each other between the same pairs.
constexpr uint32_t kReduceTag = 1;
constexpr uint32_t kGatherTag = 2;

}  // namespace

GradientReducer::GradientReducer(Communicator& group, const plan::Plan& plan, std::span<const at::Tensor> leaves,
                                 ReducerOptions options)
    : group_(group),
      wire_type_(tensor::scalar_type(plan.options.wire_type)),
      trace_(options.trace),
      plan_(plan),
      leaves_(leaves),
      segments_of_parameter_(plan.table.parameters.size()),
      segments_of_bucket_(plan.buckets.size()),
      parameters_in_bucket_(plan.buckets.size()),
      on_ready_([this](int parameter) { gradient_ready(parameter); }),
      in_place_(plan.table.parameters.size()),
      fired_(plan.table.parameters.size()),
      used_(plan.table.parameters.size()) {
  for (size_t index = 0; index < plan.segments.size(); ++index) {
    const plan::Segment& segment = plan.segments[index];
    auto& of_parameter = segments_of_parameter_[static_cast<size_t>(segment.parameter)];
    const bool first_in_bucket = std::none_of(of_parameter.begin(), of_parameter.end(), [&](int other) {
      return plan.segments[static_cast<size_t>(other)].bucket == segment.bucket;
    });
    if (first_in_bucket) ++parameters_in_bucket_[static_cast<size_t>(segment.bucket)];
    of_parameter.push_back(static_cast<int>(index));
    segments_of_bucket_[static_cast<size_t>(segment.bucket)].push_back(static_cast<int>(index));
  }
  if (!plan.gradients_stay_in_place()) {
    buckets_.resize(plan.buckets.size());
    const bool slices = plan.buckets_are_transient() || plan.reduces_each_micro_batch();
    for (size_t index = 0; index < plan.buckets.size(); ++index) {
      const plan::Bucket& bucket = plan.buckets[index];
      if (!plan.buckets_are_transient()) open_bucket(index);
      if (slices) slices_.push_back(at::zeros({bucket.slice_numel}, tensor::scalar_type(plan.slice_type())));
      bucket_names_.push_back(
          fmt::format("gradients of {}", plan.table.units[static_cast<size_t>(bucket.pieces.front().unit)]));
    }
  }
  on_gradient_ready(leaves_, &on_ready_);
  if (group.size() > 1 && options.overlap) {
    worker_ = std::thread([this] { run_worker(); });
    ::pthread_setname_np(worker_.native_handle(), "ls-reduce");
  }
}

GradientReducer::~GradientReducer() {
  on_gradient_ready(leaves_, nullptr);
  if (!worker_.joinable()) return;
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void GradientReducer::start_backward(Reduce reduce) {
  if (rounds_ > 0) wait_for_worker();  // Buckets are still being reduced, or their failure is to be told.
  reduce_ = reduce;
  adds_ = holds_own_sums_;
  adds_means_ = rounds_ > 0;
  std::fill(fired_.begin(), fired_.end(), false);
  for (const at::Tensor& leaf : leaves_)
    if (leaf.requires_grad()) leaf.mutable_grad().reset();
  if (adds_means_ && !plan_.gradients_stay_in_place()) keep_means();
  set_bucket_types(/*sums=*/reduce == Reduce::none || adds_);
  if (reduce == Reduce::none) return;
  norm_ = {};
  if (!adds_means_) non_finite_ranks_.assign(buckets_.size(), -1);
  next_bucket_ = 0;
  waiting_for_ = parameters_in_bucket_;
  const base::MutexLock lock(mutex_);
  reduced_ = 0;
}

/// The means of earlier backwards leave the buckets, which take the next one's gradients, and are summed in fp32.
void GradientReducer::keep_means() {
  spare_slices_ = spare_slices_ || slices_.empty();
  if (slices_.empty())
    for (size_t index = 0; index < buckets_.size(); ++index)
      slices_.push_back(own_part(index).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
  for (at::Tensor& slice : slices_) slice = slice.to(at::kFloat);
}

at::ScalarType GradientReducer::bucket_type(size_t bucket) const {
  return buckets_sum_ || plan_.buckets[bucket].sparse ? at::kFloat : tensor::scalar_type(plan_.bucket_type());
}

void GradientReducer::set_bucket_types(bool sums) {
  buckets_sum_ = sums;
  for (size_t index = 0; index < buckets_.size(); ++index)
    if (buckets_[index].defined()) buckets_[index] = buckets_[index].to(bucket_type(index));
}

void GradientReducer::open_bucket(size_t bucket) {
  // Zeros: padding is sent and summed like the rest.
  buckets_[bucket] = at::zeros({plan_.buckets[bucket].slice_numel * group_.size()}, bucket_type(bucket));
}

void GradientReducer::gradient_ready(int parameter) {
  const auto index = static_cast<size_t>(parameter);
  LOCKSTEP_CHECK(!fired_[index]);
  fired_[index] = true;
  used_[index] = true;
  at::Tensor gradient = std::move(leaves_[index].mutable_grad());
  leaves_[index].mutable_grad() = at::Tensor();
  store(parameter, &gradient);
}

void GradientReducer::store(int parameter, const at::Tensor* gradient) {
  const auto index = static_cast<size_t>(parameter);
  if (plan_.gradients_stay_in_place()) {
    at::Tensor& sum = in_place_[index];
    if (!sum.defined()) {
      sum = gradient != nullptr ? gradient->contiguous() : at::zeros_like(leaves_[index]);
    } else if (gradient != nullptr) {
      sum = sum.to(at::kFloat);
      tensor::accumulate(tensor::elements_of(gradient->contiguous()), sum.mutable_data_ptr<float>(), sum.numel());
    }
    return;
  }
  const at::Tensor source = gradient != nullptr ? gradient->contiguous() : at::Tensor();
  for (const int at : segments_of_parameter_[index]) {
    const plan::Segment& segment = plan_.segments[static_cast<size_t>(at)];
    at::Tensor& bucket = buckets_[static_cast<size_t>(segment.bucket)];
    if (!bucket.defined()) open_bucket(static_cast<size_t>(segment.bucket));
    const tensor::MutableElements into = tensor::mutable_elements_of(bucket).from(segment.bucket_begin);
    if (source.defined()) {
      const tensor::Elements from = tensor::elements_of(source).from(segment.parameter_begin);
      if (adds_)
        tensor::accumulate(from, static_cast<float*>(into.data), segment.numel);
      else
        tensor::convert(from, into, segment.numel);
    } else if (!adds_) {
      std::memset(into.data, 0, static_cast<size_t>(segment.numel) * bucket.element_size());
    }
  }
  if (reduce_ != Reduce::none) count_ready(parameter);
}

void GradientReducer::count_ready(int parameter) {
  int last = -1;
  for (const int at : segments_of_parameter_[static_cast<size_t>(parameter)]) {
    const int bucket = plan_.segments[static_cast<size_t>(at)].bucket;
    if (bucket != last) --waiting_for_[static_cast<size_t>(bucket)];
    last = bucket;
  }
  start_full_buckets();
}

void GradientReducer::start_full_buckets() {
  const auto bucket_count = static_cast<int>(plan_.buckets.size());
  while (next_bucket_ < bucket_count && waiting_for_[static_cast<size_t>(next_bucket_)] == 0) {
    if (worker_.joinable())
      enqueue(next_bucket_);
    else
      reduce_bucket(next_bucket_);
    ++next_bucket_;
  }
}

void GradientReducer::enqueue(int bucket) {
  mutex_.lock();
  // A fast backward waits here, so that no more than two transient buckets are full.  No deadline of its own: each
  // transfer that the worker waits for has one, and a failure ends the wait.
  while (plan_.buckets_are_transient() && bucket - reduced_ >= 2 && !first_error_) changed_.wait(mutex_);
  queue_.push_back(bucket);
  mutex_.unlock();
  changed_.notify_all();
}

void GradientReducer::finish_backward() {
  for (size_t index = 0; index < leaves_.size(); ++index)
    if (plan_.table.parameters[index].requires_grad && !fired_[index]) store(static_cast<int>(index), nullptr);
  holds_own_sums_ = reduce_ == Reduce::none;
  if (reduce_ != Reduce::none && !plan_.gradients_stay_in_place()) ++rounds_;
}

ReducedNorm GradientReducer::finish() {
  LOCKSTEP_CHECK(reduce_ == Reduce::last_means);
  if (plan_.gradients_stay_in_place()) {
    norm_ = {};
    for (const plan::Segment& segment : plan_.segments) add_norm(segment, group_.rank());
    return norm_;
  }
  wait_for_worker();
  return norm_;
}

void GradientReducer::wait_for_worker() {
  LOCKSTEP_CHECK_EQ(next_bucket_, static_cast<int>(plan_.buckets.size()));
  if (!worker_.joinable()) return;
  mutex_.lock();
  // No deadline of its own: each transfer that the worker waits for has one.
  while (reduced_ < next_bucket_ && !first_error_) changed_.wait(mutex_);
  const std::exception_ptr error = first_error_;
  mutex_.unlock();
  if (error) std::rethrow_exception(error);
}

void GradientReducer::release() {
  rounds_ = 0;
  if (spare_slices_) slices_.clear();
  spare_slices_ = false;
  for (at::Tensor& slice : slices_) slice = slice.to(tensor::scalar_type(plan_.slice_type()));
  std::fill(used_.begin(), used_.end(), false);
  for (at::Tensor& gradient : in_place_) gradient.reset();
}

int GradientReducer::first_without_gradient() const {
  for (size_t index = 0; index < used_.size(); ++index)
    if (leaves_[index].requires_grad() && !used_[index]) return static_cast<int>(index);
  return -1;
}

tensor::Elements GradientReducer::gradient(const plan::Segment& segment) const {
  if (plan_.gradients_stay_in_place())
    return tensor::elements_of(in_place_[static_cast<size_t>(segment.parameter)]).from(segment.parameter_begin);
  const auto bucket = static_cast<size_t>(segment.bucket);
  if (plan_.updates_everything() || slices_.empty())
    return tensor::elements_of(buckets_[bucket]).from(segment.bucket_begin);
  return tensor::elements_of(slices_[bucket])
      .from(segment.bucket_begin - segment.owner * plan_.buckets[bucket].slice_numel);
}

at::Tensor GradientReducer::own_part(size_t bucket) const {
  const int64_t slice_numel = plan_.buckets[bucket].slice_numel;
  return buckets_[bucket].narrow(0, group_.rank() * slice_numel, slice_numel);
}

void GradientReducer::reduce_bucket(int bucket) {
  const auto index = static_cast<size_t>(bucket);
  const TraceSpan span(trace_, Trace::Lane::reduce, bucket_names_[index]);
  const bool last = reduce_ == Reduce::last_means;
  const at::Tensor own = own_part(index);
  // Where the means are summed over backwards, or outlive their bucket, they go to a slice of their own.
  const at::Tensor mean = slices_.empty() || adds_means_ ? own : slices_[index];
  const bool alone = group_.size() == 1;
  if (!alone) {
    int non_finite_rank = -1;
    reduce_into(mean, index, &non_finite_rank);
    if (non_finite_ranks_[index] < 0) non_finite_ranks_[index] = non_finite_rank;
  }
  if (adds_means_) tensor::accumulate(tensor::elements_of(own), slices_[index].mutable_data_ptr<float>(), own.numel());
  if (last && plan_.updates_everything() && !slices_.empty()) {
    buckets_[index] = buckets_[index].to(at::kFloat);
    own_part(index).copy_(slices_[index]);
  }
  if (last) {
    const int blamed = non_finite_ranks_[index] < 0 ? group_.rank() : non_finite_ranks_[index];
    for (const int at : segments_of_bucket_[index]) {
      const plan::Segment& segment = plan_.segments[static_cast<size_t>(at)];
      if (segment.owner == group_.rank()) add_norm(segment, blamed);
    }
  }
  if (last && plan_.updates_everything() && !alone) gather_means(index);
  if (plan_.buckets_are_transient()) buckets_[index].reset();
}

void GradientReducer::reduce_into(const at::Tensor& mean, size_t bucket, int* non_finite_rank) {
  const Message message{.tag = kReduceTag, .what = bucket_names_[bucket]};
  if (plan_.buckets[bucket].sparse) {
    comm::sparse_mean(group_, buckets_[bucket], wire_type_, message, non_finite_rank);
    const at::Tensor own = own_part(bucket);
    if (mean.const_data_ptr() != own.const_data_ptr()) mean.copy_(own);
    return;
  }
  const at::Tensor contributions = buckets_[bucket].to(wire_type_);  // The bucket itself where it is in that type.
  const bool fits = mean.scalar_type() == wire_type_;
  const at::Tensor on_wire = fits ? mean : contributions.narrow(0, group_.rank() * mean.numel(), mean.numel());
  comm::start_reduce_scatter_mean(group_, contributions, on_wire, message, non_finite_rank).wait();
  if (!fits) mean.copy_(on_wire);
}

void GradientReducer::gather_means(size_t bucket) {
  if (plan_.buckets[bucket].sparse && !adds_means_) return;  // Every rank has them.
  const Message message{.tag = kGatherTag, .what = bucket_names_[bucket]};
  const at::Tensor own = own_part(bucket);
  if (own.scalar_type() == wire_type_ || !slices_.empty()) {
    comm::start_all_gather(group_, own, buckets_[bucket], message).wait();
    return;
  }
  // A mean was rounded to the wire's type once, so it travels in it without loss; a sum of several was not.
  const at::Tensor all = at::empty(buckets_[bucket].sizes(), wire_type_);
  comm::start_all_gather(group_, own.to(wire_type_), all, message).wait();
  buckets_[bucket].copy_(all);
}

void GradientReducer::add_norm(const plan::Segment& segment, int rank) {
  tensor::for_each_widened(gradient(segment), segment.numel,
                           [&](const float* values, int64_t /*begin*/, int64_t count) {
                             const bool finite = kernels::add_squares(values, count, norm_.squares);
                             if (!finite && norm_.non_finite.rank < 0)
                               norm_.non_finite = {.rank = rank, .parameter = segment.parameter};
                           });
}

void GradientReducer::run_worker() {
  try {
    while (true) {
      mutex_.lock();
      while (queue_.empty() && !stop_) changed_.wait(mutex_);
      if (stop_) {
        mutex_.unlock();
        return;
      }
      const int bucket = queue_.front();
      queue_.pop_front();
      mutex_.unlock();
      reduce_bucket(bucket);
      {
        const base::MutexLock lock(mutex_);
        ++reduced_;
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const base::MutexLock lock(mutex_);
      first_error_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

}  // namespace lockstep::zero
