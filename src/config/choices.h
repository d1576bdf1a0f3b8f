#pragma once

#include "config/keys.h"

/// Names of every enum in the config, in the order of its values.
namespace lockstep::config {

inline constexpr std::array kDataTypes{Choice{"fp32", "float32 float torch.float32"},
                                       Choice{"fp16", "float16 half torch.float16"},
                                       Choice{"bf16", "bfloat16 torch.bfloat16"}, Choice{"int8", "torch.int8"}};
inline constexpr std::array kReduceOps{Choice{"mean"}, Choice{"sum"}};
inline constexpr std::array kAmpBackends{Choice{"auto"}, Choice{"torch"}, Choice{"apex"}};
inline constexpr std::array kWarmupTypes{Choice{"log"}, Choice{"linear"}};
inline constexpr std::array kOffloadDevices{Choice{"none"}, Choice{"cpu"}, Choice{"nvme"}};
inline constexpr std::array kStrategies{Choice{"auto"}, Choice{"step"}, Choice{"epoch"}};
inline constexpr std::array kSchedules{Choice{"1f1b"}, Choice{"gpipe"}};
inline constexpr std::array kWriterTypes{Choice{"FAST", "fast"}, Choice{"PYTHON", "python"}, Choice{"MOCK", "mock"}};
inline constexpr std::array kWriterParallel{Choice{"REPLICA", "replica"}, Choice{"SOCKET", "socket"},
                                            Choice{"MACHINE", "machine"}};
inline constexpr std::array kTagValidations{Choice{"Ignore", "ignore IGNORE"}, Choice{"Warn", "warn WARN"},
                                            Choice{"Fail", "fail FAIL"}};
inline constexpr std::array kHalfProducts{Choice{"auto"}, Choice{"native"}, Choice{"widened"}};
inline constexpr std::array kReduceAt{Choice{"auto"}, Choice{"boundary"}, Choice{"micro_batch"}};

template <>
inline std::span<const Choice> choices<DataType>() {
  return kDataTypes;
}
template <>
inline std::span<const Choice> choices<Config::ReduceOp>() {
  return kReduceOps;
}
template <>
inline std::span<const Choice> choices<AmpConfig::Backend>() {
  return kAmpBackends;
}
template <>
inline std::span<const Choice> choices<SchedulerParams::WarmupType>() {
  return kWarmupTypes;
}
template <>
inline std::span<const Choice> choices<OffloadDevice>() {
  return kOffloadDevices;
}
template <>
inline std::span<const Choice> choices<ZenFlowConfig::Strategy>() {
  return kStrategies;
}
template <>
inline std::span<const Choice> choices<PipelineConfig::Schedule>() {
  return kSchedules;
}
template <>
inline std::span<const Choice> choices<CheckpointWriterConfig::Type>() {
  return kWriterTypes;
}
template <>
inline std::span<const Choice> choices<CheckpointWriterConfig::DataParallel>() {
  return kWriterParallel;
}
template <>
inline std::span<const Choice> choices<CheckpointConfig::TagValidation>() {
  return kTagValidations;
}
template <>
inline std::span<const Choice> choices<LockstepConfig::HalfProducts>() {
  return kHalfProducts;
}
template <>
inline std::span<const Choice> choices<LockstepConfig::ReduceAt>() {
  return kReduceAt;
}

}  // namespace lockstep::config
