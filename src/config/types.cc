#include <algorithm>
#include <cctype>

#include "config/draft.h"

namespace lockstep::config {
namespace {

constexpr std::array kOptimizers{
    TypeName{"Adam", true, true},         TypeName{"AdamW", true, true},       TypeName{"SGD", false, true},
    TypeName{"Adagrad", true, true},      TypeName{"RMSprop", false, true},    TypeName{"Lamb", true, true},
    TypeName{"Lion", true, true},         TypeName{"Muon", true, true},        TypeName{"OneBitAdam", true, true},
    TypeName{"OneBitLamb", true, true},   TypeName{"ZeroOneAdam", true, true}, TypeName{"MuAdam", true, false},
    TypeName{"MuAdamW", true, false},     TypeName{"MuSGD", true, false},      TypeName{"Adamax", false, false},
    TypeName{"NAdam", false, false},      TypeName{"RAdam", false, false},     TypeName{"Adadelta", false, false},
    TypeName{"ASGD", false, false},       TypeName{"Rprop", false, false},     TypeName{"LBFGS", false, false},
    TypeName{"SparseAdam", false, false}, TypeName{"Adafactor", false, false}};

constexpr std::array kSchedulers{TypeName{"WarmupLR", false, true},
                                 TypeName{"WarmupDecayLR", false, true},
                                 TypeName{"WarmupCosineLR", false, true},
                                 TypeName{"LRRangeTest", false, true},
                                 TypeName{"OneCycle", false, true},
                                 TypeName{"StepLR", false, false},
                                 TypeName{"MultiStepLR", false, false},
                                 TypeName{"ConstantLR", false, false},
                                 TypeName{"LinearLR", false, false},
                                 TypeName{"ExponentialLR", false, false},
                                 TypeName{"PolynomialLR", false, false},
                                 TypeName{"CosineAnnealingLR", false, false},
                                 TypeName{"CosineAnnealingWarmRestarts", false, false},
                                 TypeName{"CyclicLR", false, false},
                                 TypeName{"OneCycleLR", false, false},
                                 TypeName{"ReduceLROnPlateau", false, false}};

bool same_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const TypeName> optimizer_types() { return kOptimizers; }
std::span<const TypeName> scheduler_types() { return kSchedulers; }

std::string canonical_type(std::span<const TypeName> types, std::string_view written) {
  for (const TypeName& type : types) {
    if (written == type.name || (type.any_case && same_but_case(written, type.name))) return type.name;
  }
  return {};
}

void set_type_defaults(OptimizerConfig& config) {
  OptimizerParams& p = config.params;
  if (config.type == "Adagrad") {
    p.lr = 1e-2;
    p.eps = 1e-10;
  } else if (config.type == "RMSprop") {
    p.lr = 1e-2;
  } else if (config.type == "Muon") {
    p.lr = 0.02;
    p.betas = {0.9, 0.95};
    p.eps = 1e-10;
    p.momentum = 0.95;
  }
}

void set_type_defaults(SchedulerConfig& config) {
  if (config.type == "WarmupDecayLR") config.params.warmup_max_lr = {0.001};
}

}  // namespace lockstep::config
