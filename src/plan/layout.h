#pragma once

#include <cstdint>
#include <vector>

#include "plan/parameter_table.h"

namespace lockstep::plan {

/// Everything starts on a block of 64 elements: products and norms then give the same bits wherever a slice is cut.
inline constexpr int64_t kBlockNumel = 64;

/// Where a parameter lies in its unit's flat storage, in elements.
struct Placement {
  int parameter = 0;
  int64_t offset = 0;

  bool operator==(const Placement&) const = default;
};

/// One flat storage for the trainable parameters of a unit, cut into equal owner slices, one a rank.
struct UnitLayout {
  std::vector<Placement> placements{};
  int64_t slice_numel = 0;  ///< A multiple of kBlockNumel; 0 where the unit trains nothing.
  int64_t numel = 0;  ///< slice_numel times the number of ranks; what exceeds the parameters is padding, always zero.

  bool operator==(const UnitLayout&) const = default;
};

/// A run of a unit's owner slices, the same run of every rank's.
struct BucketPiece {
  int unit = 0;
  int64_t slice_begin = 0;   ///< In each owner slice of the unit.
  int64_t numel = 0;         ///< Per owner.
  int64_t bucket_begin = 0;  ///< In each owner's part of the bucket.

  bool operator==(const BucketPiece&) const = default;
};

/// What is reduced in one transfer: one part per owner, equal in length, one after the other.
struct Bucket {
  std::vector<BucketPiece> pieces{};
  int64_t slice_numel = 0;  ///< Per owner.
  bool sparse = false;      ///< Mostly zeros: only what is not travels.

  bool operator==(const Bucket&) const = default;
};

/// A run of one parameter's elements inside one bucket, with one owner.
struct Segment {
  int parameter = 0;
  int64_t parameter_begin = 0;  ///< A multiple of kBlockNumel.
  int64_t numel = 0;
  int64_t unit_begin = 0;  ///< In the unit's flat storage.
  int bucket = 0;
  int owner = 0;
  int64_t bucket_begin = 0;  ///< In the whole bucket: owner * slice_numel + position.

  bool operator==(const Segment&) const = default;
};

/// Units whose updated weights are gathered in one transfer.
struct GatherGroup {
  std::vector<int> units{};
  int64_t slice_numel = 0;  ///< Per owner, over all units.

  bool operator==(const GatherGroup&) const = default;
};

/// A layout per unit of the table.
std::vector<UnitLayout> make_unit_layouts(const ParameterTable& table, int world_size);

/// Buckets in the order in which backward fills them: the last unit first.  Small units share a bucket of at most
/// bucket_numel elements over all owners; a larger unit is cut.  Those of `sparse` have buckets of their own.
std::vector<Bucket> make_buckets(const std::vector<UnitLayout>& layouts, int world_size, int64_t bucket_numel,
                                 const std::vector<int>& sparse);

/// Every trainable element exactly once, ordered by bucket, then owner.
std::vector<Segment> make_segments(const ParameterTable& table, const std::vector<UnitLayout>& layouts,
                                   const std::vector<Bucket>& buckets, int world_size);

/// Neighbouring small units together, up to gather_numel elements over all owners; a larger unit by itself, and so each
/// of `alone`.
std::vector<GatherGroup> make_gathers(const std::vector<UnitLayout>& layouts, int64_t gather_numel,
                                      const std::vector<int>& alone);

}  // namespace lockstep::plan
