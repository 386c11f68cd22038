#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema.py FILE... -- checks reports of kv-bench against their JSON Schemas in docs/reference.

A report's member `schema` names its schema: kvbench-sweep/1 is kv-bench-sweep.schema.json. A word of the schema that
this does not know is an error, so that no rule is passed over. So is an object that does not say which other members
it may have: a member that nobody has written down is to be found. Where the Python package jsonschema is installed, it
has to agree.
"""
import json
import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference")

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "$comment", "$ref", "title", "description", "definitions", "type", "const", "enum", "required",
         "properties", "additionalProperties", "items", "minimum", "maximum"}


def is_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(root, schema, value, at):
    if set(schema) - KNOWN:
        yield f"{at}: the schema has {sorted(set(schema) - KNOWN)}, which schema.py does not know"
    if "$ref" in schema:
        yield from errors(root, root["definitions"][schema["$ref"].split("/")[-1]], value, at)
        return
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, n) for n in names):
        yield f"{at}: {value!r:.60} is not of type {names}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r:.60} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{at}: {value} is out of range"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: {name} is missing"
        for name, item in value.items():
            rule = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if rule is False:
                yield f"{at}: {name} has no place here"
            elif rule is not True:
                yield from errors(root, rule, item, f"{at}.{name}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from errors(root, schema.get("items", {}), item, f"{at}[{i}]")


def left_open(schema, at):
    if isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from left_open(part, f"{at}[{i}]")
    if not isinstance(schema, dict):
        return
    if "object" in schema.get("type", []) and schema.get("additionalProperties", True) is True:
        yield f"{at}: this object may have any other member"
    for name, part in schema.items():
        yield from left_open(part, f"{at}.{name}")


def schema_of(value):
    name, _, version = value.get("schema", "").partition("/")
    if not name.startswith("kvbench") or "/" in version:
        raise SystemExit(f"there is no schema {value.get('schema')!r}")
    with open(os.path.join(FOLDER, name.replace("kvbench", "kv-bench") + ".schema.json"), encoding="utf-8") as f:
        schema = json.load(f)
    opened = list(left_open(schema, "schema"))
    if opened:
        raise SystemExit("\n".join(opened))
    return schema


def theirs(schema, value):
    try:
        import jsonschema
    except ImportError:
        return None
    jsonschema.Draft7Validator.check_schema(schema)
    return [e.message for e in jsonschema.Draft7Validator(schema).iter_errors(value)]


def main():
    bad = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
        schema = schema_of(value)
        found, others = list(errors(schema, schema, value, "$")), theirs(schema, value)
        if others is not None and bool(others) != bool(found):
            found.append(f"jsonschema says otherwise: {others[:3]}")
        for line in found:
            print(f"{path}: {line}")
        bad += bool(found)
    return 1 if bad or not sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
