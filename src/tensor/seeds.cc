#include "tensor/seeds.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

namespace lockstep::tensor {
namespace {

// SplitMix64's output function (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a bijection
// whose values over a counter pass BigCrush.
uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// What follows uses only operations that IEEE 754 rounds exactly: a mathematical library's logarithm or cosine differs
// between hosts in the last bit.

/// The natural logarithm of a normal positive number, to about 1e-15.
double logarithm(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double fraction = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);  // In [1, 2).
  if (fraction > std::numbers::sqrt2) {
    fraction /= 2;
    ++exponent;
  }
  const double s = (fraction - 1) / (fraction + 1);  // log(fraction) = 2 artanh(s), |s| < 0.172
  const double square = s * s;
  double series = 0;
  for (int n = 21; n >= 1; n -= 2) series = series * square + 1.0 / n;
  return 2 * s * series + exponent * std::numbers::ln2;
}

double rational(const std::array<double, 8>& above, const std::array<double, 8>& below, double x) {
  double numerator = above[7];
  double denominator = below[7];
  for (size_t i = 7; i-- > 0;) {
    numerator = numerator * x + above[i];
    denominator = denominator * x + below[i];
  }
  return numerator / denominator;
}

/// The number below which a standard normal falls with the given probability: Wichura's algorithm AS 241 (1988), whose
/// coefficients these are; 16 digits.
double normal_quantile(double probability) {
  constexpr std::array kCentre{3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                               1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                               3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr std::array kCentreBelow{1.0,
                                    4.2313330701600911252e+1,
                                    6.8718700749205790830e+2,
                                    5.3941960214247511077e+3,
                                    2.1213794301586595867e+4,
                                    3.9307895800092710610e+4,
                                    2.8729085735721942674e+4,
                                    5.2264952788528545610e+3};
  constexpr std::array kTail{1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                             3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                             2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr std::array kTailBelow{1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  constexpr std::array kFarTail{6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr std::array kFarTailBelow{1.0,
                                     5.99832206555887937690e-1,
                                     1.36929880922735805310e-1,
                                     1.48753612908506148525e-2,
                                     7.86869131145613259100e-4,
                                     1.84631831751005468180e-5,
                                     1.42151175831644588870e-7,
                                     2.04426310338993978564e-15};
  const double offset = probability - 0.5;
  if (std::abs(offset) <= 0.425) return offset * rational(kCentre, kCentreBelow, 0.180625 - offset * offset);
  const double root = std::sqrt(-logarithm(offset < 0 ? probability : 1 - probability));
  const double size = root <= 5 ? rational(kTail, kTailBelow, root - 1.6) : rational(kFarTail, kFarTailBelow, root - 5);
  return offset < 0 ? -size : size;
}

/// In (0, 1), neither end included: 52 bits and a half.
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

}  // namespace

uint64_t layer_seed(const LayerCall& call) {
  uint64_t hash = mix(call.seed);
  for (const int64_t part : {call.step, call.micro_batch, call.data_rank, call.layer, call.call})
    hash = mix(hash ^ static_cast<uint64_t>(part));
  return hash;
}

void fill_normal(std::span<float> values, double deviation, uint64_t seed, std::string_view name, int64_t first) {
  const uint64_t stream = mix(mix(seed) ^ name_hash(name)) + static_cast<uint64_t>(first);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(deviation * normal_quantile(uniform(mix(stream + i))));
}

}  // namespace lockstep::tensor
