// Old names and indirect forms of keys, and hints for names that never were.
#include <fmt/format.h>

#include "config/draft.h"

namespace lockstep::config {
namespace {

struct Renamed {
  const char* section;
  const char* old_name;
  const char* path;  ///< The key of today.
};

constexpr std::array kRenamed{Renamed{"", "allgather_size", "zero_optimization.allgather_bucket_size"},
                              Renamed{"zero_optimization", "stage3_gather_fp16_weights_on_model_save",
                                      "zero_optimization.stage3_gather_16bit_weights_on_model_save"}};

struct Hint {
  const char* section;
  const char* name;
  const char* text;
};

constexpr std::array kHints{
    Hint{"aio", "thread_count", "unknown key, though DeepSpeed's pages have it; write \"intra_op_parallelism\""},
    Hint{"bf16", "check_overflow", "unknown key; write \"check_grad_overflow\""},
    Hint{"zero_optimization", "grad_hooks", "DeepSpeed removed this key; remove it"},
    Hint{"optimizer.params", "max_grad_norm",
         "an optimizer does not clip; write \"gradient_clipping\" at the top level"}};

/// Reports a key that stands under its old and its new name.
bool doubled(Draft& draft, const Node::Member& member, const std::string& old_path, const std::string& path) {
  if (!draft.written(path) && !draft.given(path)) return false;
  draft.problem(member.at, old_path, fmt::format("an old name of {}, which is given too; remove this one", path));
  return true;
}

/// "cpu_offload": true and its like: a block by way of a boolean.
bool read_cpu_offload(Draft& draft, const Node::Member& member) {
  const bool optimizer = member.key == "cpu_offload";
  if (!optimizer && member.key != "cpu_offload_param") return false;
  const std::string old_path = "zero_optimization." + member.key;
  const std::string block = optimizer ? "zero_optimization.offload_optimizer" : "zero_optimization.offload_param";
  if (member.value.kind == Node::Kind::broken) return true;
  draft.mark_given(old_path, member.at);
  if (doubled(draft, member, old_path, block)) return true;
  if (member.value.kind != Node::Kind::boolean) {
    draft.problem(
        member.value.at, old_path,
        fmt::format("an old boolean key; write \"{}\": {{\"device\": \"cpu\"}}", block.substr(block.find('.') + 1)));
    return true;
  }
  draft.warning(old_path, fmt::format("an old name; write {}.device", block));
  if (!member.value.boolean) return true;
  OffloadDevice& device = optimizer ? draft.config.zero_optimization.offload_optimizer.device
                                    : draft.config.zero_optimization.offload_param.device;
  device = OffloadDevice::cpu;
  draft.mark_given(block + ".device", member.value.at);
  draft.origin(block + ".device", Origin::Source::file, "");
  return true;
}

bool read_zero(Draft& draft, const Node::Member& member) {
  if (read_cpu_offload(draft, member)) return true;
  const std::string path = "zero_optimization." + member.key;
  if (member.key == "cpu_offload_use_pin_memory") {
    draft.mark_given(path, member.at);
    draft.warning(path, "an old key whose value DeepSpeed drops; write offload_optimizer.pin_memory");
    return true;
  }
  if (member.key == "legacy_stage1") {
    draft.mark_given(path, member.at);
    if (member.value.kind == Node::Kind::boolean && !member.value.boolean) {
      draft.notice(path, "changes nothing: the old stage 1 is gone");
    } else if (member.value.kind != Node::Kind::broken) {
      draft.problem(path, "the old stage 1 is gone; remove the key");
    }
    return true;
  }
  return false;
}

bool read_zero_as_boolean(Draft& draft, const Node::Member& member) {
  if (member.key != "zero_optimization" || member.value.kind != Node::Kind::boolean) return false;
  draft.mark_given("zero_optimization", member.value.at);
  draft.mark_given("zero_optimization.stage", member.value.at);
  draft.config.zero_optimization.stage = member.value.boolean ? 1 : 0;
  draft.origin("zero_optimization.stage", Origin::Source::file, "");
  draft.warning("zero_optimization", fmt::format("an old form; write {{\"stage\": {}}}", member.value.boolean ? 1 : 0));
  return true;
}

bool read_bfloat16(Draft& draft, const Node::Member& member) {
  if (member.key != "bfloat16") return false;
  const Node& node = member.value;
  if (node.kind == Node::Kind::null || node.kind == Node::Kind::broken) return true;
  draft.mark_given("bfloat16", member.at);
  if (doubled(draft, member, "bfloat16", "bf16")) return true;
  if (node.kind != Node::Kind::object) {
    draft.problem(node.at, "bfloat16", "expected an object; write {\"enabled\": true}");
    return true;
  }
  draft.mark_given("bf16", node.at);
  read_members(draft, node, "bf16");
  return true;
}

/// Apex takes "dynamic" for a number.
bool read_apex_scale(Draft& draft, const Node::Member& member) {
  if (member.key != "loss_scale" || member.value.kind != Node::Kind::string || member.value.text != "dynamic")
    return false;
  draft.mark_given("amp.loss_scale", member.value.at);
  draft.origin("amp.loss_scale", Origin::Source::file, "");
  return true;
}

}  // namespace

bool read_legacy(Draft& draft, const std::string& section, const Node::Member& member) {
  const std::string path = section.empty() ? member.key : section + "." + member.key;
  for (const Renamed& each : kRenamed) {
    if (section != each.section || member.key != each.old_name) continue;
    draft.mark_given(path, member.at);
    if (doubled(draft, member, path, each.path)) return true;
    draft.warning(path, fmt::format("an old name; write {}", each.path));
    read_value(draft, *draft.keys.find(each.path), each.path, member.value);
    return true;
  }
  for (const Hint& each : kHints) {
    if (section != each.section || member.key != each.name) continue;
    if (draft.options.lenient && std::string_view(each.name) != "max_grad_norm") {
      draft.config.reading.warnings.push_back(draft.message(member.at, path, each.text));
    } else {
      draft.problem(member.at, path, each.text);
    }
    return true;
  }
  if (path == "$schema") {
    draft.mark_given(path, member.at);
    draft.notice(path, "changes nothing: it names the schema for editors");
    return true;
  }
  if (section.empty()) return read_zero_as_boolean(draft, member) || read_bfloat16(draft, member);
  if (section == "zero_optimization") return read_zero(draft, member);
  if (section == "amp") return read_apex_scale(draft, member);
  return false;
}

}  // namespace lockstep::config
