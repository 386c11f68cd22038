#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema.py SCHEMA FILE... -- checks JSON files against a JSON Schema, as far as docs/reference uses it.

A word of the schema that this does not know is an error, so that no rule is passed over. Where the Python package
jsonschema is installed, it has to agree.
"""
import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "$comment", "$ref", "title", "description", "definitions", "type", "const", "required", "properties",
         "additionalProperties", "items", "minimum", "maximum"}


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


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    bad = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
        found = list(errors(schema, schema, value, "$"))
        try:
            import jsonschema
            theirs = [e.message for e in jsonschema.Draft7Validator(schema).iter_errors(value)]
        except ImportError:
            theirs = None
        if theirs is not None and bool(theirs) != bool(found):
            found.append(f"jsonschema says otherwise: {theirs[:3]}")
        for line in found:
            print(f"{path}: {line}")
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
