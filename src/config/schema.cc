// The declared list as a JSON Schema, for completion and checks in editors.
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/draft.h"

namespace lockstep {
namespace config {
namespace {

using Json = nlohmann::ordered_json;

void add_range(Json& schema, const Range& range) {
  const auto number = [](double value) -> Json {
    return std::floor(value) == value ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  if (std::isfinite(range.low)) schema[range.low_open ? "exclusiveMinimum" : "minimum"] = number(range.low);
  if (std::isfinite(range.high)) schema[range.high_open ? "exclusiveMaximum" : "maximum"] = number(range.high);
}

Json plain_type(const char* type, const Range& range) {
  Json schema{{"type", type}};
  add_range(schema, range);
  return schema;
}

/// The forms a key's value may take.
Json forms(const Key& key) {
  const Range& range = key.about.range;
  Json out = Json::array();
  switch (key.field.kind) {
    case Kind::boolean:
      out.push_back(plain_type("boolean", {}));
      break;
    case Kind::integer:
      out.push_back(plain_type("integer", range));
      break;
    case Kind::number:
      out.push_back(plain_type("number", range));
      break;
    case Kind::text:
      out.push_back(plain_type("string", {}));
      break;
    case Kind::choice: {
      Json names = Json::array();
      for (const Choice& choice : key.field.choices) names.push_back(choice.name);
      out.push_back(Json{{"enum", names}});
      break;
    }
    case Kind::texts:
      out.push_back(Json{{"type", "array"}, {"items", plain_type("string", {})}});
      break;
    case Kind::integers:
      out.push_back(Json{{"type", "array"}, {"items", plain_type("integer", range)}});
      break;
    case Kind::pair:
      out.push_back(Json{{"type", "array"}, {"items", plain_type("number", range)}, {"minItems", 2}, {"maxItems", 2}});
      break;
    case Kind::per_group:
      out.push_back(plain_type("number", range));
      out.push_back(Json{{"type", "array"}, {"items", plain_type("number", range)}, {"minItems", 1}});
      break;
  }
  if (key.about.automatic != nullptr) out.push_back(Json{{"const", "auto"}});
  if (key.field.nullable) out.push_back(Json{{"type", "null"}});
  return out;
}

Json key_schema(const Key& key) {
  const Json all = forms(key);
  Json schema = all.size() == 1 ? all.front() : Json{{"anyOf", all}};
  std::string text = key.about.meaning;
  if (key.about.inert != nullptr) text += std::string(" Changes nothing here: ") + key.about.inert + ".";
  if (key.about.cost != nullptr) text += std::string(" Cost: ") + key.about.cost + ".";
  schema["description"] = text;
  if (key.about.absent == nullptr) schema["default"] = Json::parse(json_text(key.field.get()));
  return schema;
}

/// "If the type is X, params has only X's names."
Json type_conditions(const KeyList& keys, const std::string& section, std::span<const TypeName> types) {
  Json conditions = Json::array();
  for (const TypeName& type : types) {
    if (!type.declared) continue;
    Json names = Json::array();
    for (const std::string& name : keys.names_in(section + ".params")) {
      const Key* key = keys.find(section + ".params." + name);
      if (key->about.takers == nullptr || holds_word(key->about.takers, type.name)) names.push_back(name);
    }
    conditions.push_back(Json{{"if", {{"properties", {{"type", {{"const", type.name}}}}}, {"required", {"type"}}}},
                              {"then", {{"properties", {{"params", {{"propertyNames", {{"enum", names}}}}}}}}}});
  }
  return conditions;
}

Json section_schema(const KeyList& keys, const std::string& section) {
  Json properties = Json::object();
  for (const std::string& name : keys.names_in(section)) {
    const std::string path = section.empty() ? name : section + "." + name;
    if (const Key* key = keys.find(path)) {
      properties[name] = key_schema(*key);
      for (std::string_view rest = key->about.other_names == nullptr ? "" : key->about.other_names; !rest.empty();) {
        const size_t end = std::min(rest.find(' '), rest.size());
        properties[std::string(rest.substr(0, end))] = properties[name];
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      continue;
    }
    const Section& inner = *keys.find_section(path);
    Json schema = inner.opaque ? Json{{"type", "object"}} : section_schema(keys, path);
    schema["description"] = inner.meaning;
    properties[name] = schema;
  }
  Json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (section == "optimizer") schema["allOf"] = type_conditions(keys, section, optimizer_types());
  if (section == "scheduler") schema["allOf"] = type_conditions(keys, section, scheduler_types());
  return schema;
}

}  // namespace
}  // namespace config

std::string config_schema() {
  Config config;
  const config::KeyList keys = config::KeyList::of(config);
  config::Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                      {"title", "Lockstep's ds_config.json"},
                      {"allowTrailingCommas", true}};
  const config::Json root = config::section_schema(keys, "");
  for (const auto& [name, value] : root.items()) schema[name] = value;
  schema["properties"]["bfloat16"] = schema["properties"]["bf16"];
  schema["properties"]["bfloat16"]["deprecated"] = true;
  schema["properties"]["$schema"] = config::Json{{"type", "string"}, {"description", "This schema, for editors."}};
  return schema.dump(2) + "\n";
}

}  // namespace lockstep
