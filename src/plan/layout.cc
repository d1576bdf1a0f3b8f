#include "plan/layout.h"

#include <algorithm>

#include "base/units.h"

namespace lockstep::plan {

std::vector<UnitLayout> make_unit_layouts(const ParameterTable& table, int world_size) {
  std::vector<UnitLayout> layouts(table.units.size());
  for (size_t index = 0; index < table.parameters.size(); ++index) {
    const Parameter& parameter = table.parameters[index];
    if (!parameter.requires_grad) continue;
    UnitLayout& layout = layouts[static_cast<size_t>(parameter.unit)];
    layout.placements.push_back({.parameter = static_cast<int>(index), .offset = layout.numel});
    layout.numel += base::round_up(parameter.numel, kBlockNumel);
  }
  for (UnitLayout& layout : layouts) {
    layout.numel = base::round_up(layout.numel, world_size * kBlockNumel);
    layout.slice_numel = layout.numel / world_size;
  }
  return layouts;
}

std::vector<Bucket> make_buckets(const std::vector<UnitLayout>& layouts, int world_size, int64_t bucket_numel,
                                 const std::vector<int>& sparse) {
  const int64_t limit = std::max(kBlockNumel, bucket_numel / world_size / kBlockNumel * kBlockNumel);
  std::vector<Bucket> buckets;
  for (auto unit = static_cast<int>(layouts.size()) - 1; unit >= 0; --unit) {
    const int64_t slice_numel = layouts[static_cast<size_t>(unit)].slice_numel;
    if (slice_numel == 0) continue;
    const bool is_sparse = std::ranges::find(sparse, unit) != sparse.end();
    const auto open_bucket = [&] { buckets.push_back({.sparse = is_sparse}); };
    if (buckets.empty() || is_sparse || buckets.back().sparse || buckets.back().slice_numel + slice_numel > limit)
      open_bucket();
    for (int64_t begin = 0; begin < slice_numel;) {
      if (buckets.back().slice_numel >= limit) open_bucket();
      Bucket& bucket = buckets.back();
      const int64_t numel = std::min(slice_numel - begin, limit - bucket.slice_numel);
      bucket.pieces.push_back({.unit = unit, .slice_begin = begin, .numel = numel, .bucket_begin = bucket.slice_numel});
      bucket.slice_numel += numel;
      begin += numel;
    }
  }
  return buckets;
}

std::vector<Segment> make_segments(const ParameterTable& table, const std::vector<UnitLayout>& layouts,
                                   const std::vector<Bucket>& buckets, int world_size) {
  std::vector<Segment> segments;
  for (size_t index = 0; index < buckets.size(); ++index) {
    const Bucket& bucket = buckets[index];
    for (int owner = 0; owner < world_size; ++owner) {
      for (const BucketPiece& piece : bucket.pieces) {
        const UnitLayout& layout = layouts[static_cast<size_t>(piece.unit)];
        const int64_t piece_begin = owner * layout.slice_numel + piece.slice_begin;
        const int64_t piece_end = piece_begin + piece.numel;
        for (const Placement& placement : layout.placements) {
          const int64_t numel = table.parameters[static_cast<size_t>(placement.parameter)].numel;
          const int64_t begin = std::max(piece_begin, placement.offset);
          const int64_t end = std::min(piece_end, placement.offset + numel);
          if (begin >= end) continue;
          segments.push_back({.parameter = placement.parameter,
                              .parameter_begin = begin - placement.offset,
                              .numel = end - begin,
                              .unit_begin = begin,
                              .bucket = static_cast<int>(index),
                              .owner = owner,
                              .bucket_begin = owner * bucket.slice_numel + piece.bucket_begin + begin - piece_begin});
        }
      }
    }
  }
  return segments;
}

std::vector<GatherGroup> make_gathers(const std::vector<UnitLayout>& layouts, int64_t gather_numel,
                                      const std::vector<int>& alone) {
  std::vector<GatherGroup> groups;
  int64_t room = 0;
  for (auto unit = 0; unit < static_cast<int>(layouts.size()); ++unit) {
    const UnitLayout& layout = layouts[static_cast<size_t>(unit)];
    if (layout.numel == 0) continue;
    const bool by_itself = std::ranges::find(alone, unit) != alone.end();
    if (groups.empty() || by_itself || layout.numel > room) {
      groups.emplace_back();
      room = by_itself ? 0 : gather_numel;
    }
    groups.back().units.push_back(unit);
    groups.back().slice_numel += layout.slice_numel;
    room -= layout.numel;
  }
  return groups;
}

}  // namespace lockstep::plan
