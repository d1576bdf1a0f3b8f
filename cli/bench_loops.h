#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cli {

// The loops whose rates are the roof, with the widest vectors that this host has.  `numel` counts floats and is a
// multiple of 1024; arrays start on a page.

/// Reads every element; returns something that depends on all of them.
float read_pass(const float* from, size_t numel);
void copy_pass(float* to, const float* from, size_t numel);
/// The same with stores that go around the caches.
void streaming_copy_pass(float* to, const float* from, size_t numel);
/// to[i] = to[i] * factor: every element is read and written where it lies.
void update_pass(float* to, float factor, size_t numel);
/// As an optimizer does it: reads a quarter of the array, reads and writes the other three.
void four_streams_pass(float* array, float factor, size_t numel);

/// Runs multiply-adds in 12 independent chains and returns something that depends on all of them.
float multiply_add_pass(int64_t iterations);
/// Floating-point operations of one iteration: 12 chains, two operations, each lane.
int64_t multiply_add_flops();

/// Cycles per second of this core, by a chain of dependent additions, one a cycle.
double clock_hz();

}  // namespace lockstep::cli
