#include "precision/clipping.h"

#include <algorithm>

namespace lockstep::precision {

double gradient_divisor(double norm, double clip, double scale) {
  if (clip == 0) return scale;
  return scale * std::max(1.0, (norm + 1e-6) / clip);
}

}  // namespace lockstep::precision
