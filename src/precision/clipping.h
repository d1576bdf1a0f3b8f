#pragma once

namespace lockstep::precision {

/// What gradients are divided by: scale * max(1, (norm + 1e-6) / clip), the one formula of every mode.
/// norm: L2 of the unscaled gradients (that of the scaled ones / scale).  clip 0 switches clipping off.
/// Requires: norm finite and >= 0, clip >= 0, scale > 0.
[[nodiscard]] double gradient_divisor(double norm, double clip, double scale);

}  // namespace lockstep::precision
