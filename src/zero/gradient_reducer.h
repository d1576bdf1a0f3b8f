#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "kernels/exact_sum.h"
#include "lockstep/communicator.h"
#include "lockstep/trace.h"
#include "plan/plan.h"
#include "tensor/elements.h"

namespace lockstep::zero {

struct ReducerOptions {
  bool overlap = true;     ///< Reduce filled buckets on a thread of the reducer's own while backward goes on.
  Trace* trace = nullptr;  ///< Takes the reductions.
};

/// What a backward's gradients become.
enum class Reduce {
  none,        ///< A part of this rank's own sums.
  means,       ///< Means over ranks; another backward of the step follows.
  last_means,  ///< Means over ranks that the update may take: with their norm, on every rank that needs them.
};

/// A gradient that is not finite.  Rank -1: all are.
struct NonFiniteGradient {
  int rank = -1;
  int parameter = -1;
};

/// What the reduction of one step found in the slices that this rank owns.
struct ReducedNorm {
  kernels::ExactSum squares{};
  NonFiniteGradient non_finite{};
};

/// Turns the gradients that backward leaves on every rank into their mean over ranks.  Backward fills buckets in the
/// planned order; a full bucket is reduced when all before it have been started, so that every rank issues the same
/// transfers in the same order.  The plan says what a rank keeps: all means (an all-gather follows), or those of its
/// own slices, in buckets that stay or in slices while buckets are given back at once (Plan::buckets_are_transient).
/// With one rank and one micro-batch nothing is copied.  A parameter without a gradient counts as zeros.  A single
/// backward's gradients are kept in the type that they travel in; sums of several are in fp32.
///
/// A step has any number of backwards.  One that does not reduce adds to this rank's own sums; one that does reduces
/// those sums and its own gradients, and the owners add the means where the step reduced before.  Which are which
/// decides the bits; the stage and the buckets do not.
///
/// start_backward, finish_backward and finish are called by the thread that runs backward.  After a CommError the
/// reducer is unusable.
class GradientReducer {
 public:
  /// `leaves`, `plan` and `group` must outlive the reducer.  Installs hooks on the leaves.
  GradientReducer(Communicator& group, const plan::Plan& plan, std::span<const at::Tensor> leaves,
                  ReducerOptions options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Before a backward.  Throws CommError.
  void start_backward(Reduce reduce);
  /// After that backward.
  void finish_backward();
  /// Whether backwards of this step were not reduced yet.
  [[nodiscard]] bool holds_own_sums() const { return holds_own_sums_; }
  /// After the step's last backward, with Reduce::last_means: waits until every bucket is reduced.  Throws CommError.
  [[nodiscard]] ReducedNorm finish();
  /// The first parameter that no backward of the step gave a gradient on this rank; -1 for none.  Frozen ones are not
  /// expected to have one.
  [[nodiscard]] int first_without_gradient() const;
  /// Drops what the step left behind; call after the update.
  void release();

  /// The mean gradient of a planned segment, an own one where updates are by slices.  Valid from finish() to release().
  [[nodiscard]] tensor::Elements gradient(const plan::Segment& segment) const;

 private:
  void gradient_ready(int parameter);
  void store(int parameter, const at::Tensor* gradient);
  void count_ready(int parameter);
  void start_full_buckets();
  void enqueue(int bucket);
  void open_bucket(size_t bucket);
  void set_bucket_types(bool sums);
  [[nodiscard]] at::ScalarType bucket_type(size_t bucket) const;
  void keep_means();
  void reduce_bucket(int bucket);
  void reduce_into(const at::Tensor& mean, size_t bucket, int* non_finite_rank);
  void gather_means(size_t bucket);
  [[nodiscard]] at::Tensor own_part(size_t bucket) const;
  void wait_for_worker();
  void add_norm(const plan::Segment& segment, int rank);
  void run_worker();

  // Constant after construction.
  Communicator& group_;
  const at::ScalarType wire_type_;
  Trace* const trace_;
  const plan::Plan& plan_;
  const std::span<const at::Tensor> leaves_;
  std::vector<std::vector<int>> segments_of_parameter_;
  std::vector<std::vector<int>> segments_of_bucket_;
  std::vector<int> parameters_in_bucket_;  ///< How many must be ready.
  std::vector<std::string> bucket_names_;
  std::function<void(int)> on_ready_;

  // The thread that runs backward.
  bool buckets_sum_ = false;         ///< Buckets are in fp32, whatever travels.
  std::vector<at::Tensor> buckets_;  ///< [world_size * slice_numel] each; a transient one is undefined until filled.
  std::vector<at::Tensor> in_place_;
  std::vector<bool> fired_;
  std::vector<bool> used_;  ///< By any backward of the step.
  std::vector<int> waiting_for_;
  Reduce reduce_ = Reduce::none;  ///< Of the backward under way.
  bool holds_own_sums_ = false;   ///< Backwards of this step were not reduced yet.
  int rounds_ = 0;                ///< Backwards of this step that were reduced.
  bool adds_ = false;             ///< The backward under way adds to own sums.
  bool adds_means_ = false;       ///< The one under way is not the step's first that is reduced.
  bool spare_slices_ = false;     ///< slices_ were made for this step alone.
  int next_bucket_ = 0;

  // The thread that reduces; the other one may read them after finish().
  std::vector<at::Tensor> slices_;     ///< Own means, [slice_numel] each, where they do not stay in the buckets.
  std::vector<int> non_finite_ranks_;  ///< By bucket; -1 for none.
  ReducedNorm norm_;

  base::Mutex mutex_;
  base::Condition changed_;
  std::deque<int> queue_ LOCKSTEP_GUARDED_BY(mutex_);
  int reduced_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  bool stop_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::exception_ptr first_error_ LOCKSTEP_GUARDED_BY(mutex_);

  std::thread worker_;  // joined by the destructor
};

}  // namespace lockstep::zero
