"""The JSON Schema of convolv-web's /api/v1 for the tests: what an answer breaks of it, and which of its
members answers have shown."""
import json
import os

import jsonschema

import convolvd as c

PATH = os.path.join(c.ROOT, "clients", "web", "page", "api", "v1", "schema.json")

with open(PATH, encoding="utf-8") as schema_file:
    SCHEMA = json.load(schema_file)
DEFINITIONS = SCHEMA["$defs"]


def broken(name, value):
    """What the value breaks of a definition, a line each."""
    validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS})
    return [f"{name}{''.join(f'[{part!r}]' for part in error.absolute_path)}: {error.message[:300]}"
            for error in validator.iter_errors(value)]


def check(name, value):
    wrong = broken(name, value)
    assert not wrong, "not as clients/web/page/api/v1/schema.json says (mend one of them):\n" + "\n".join(wrong)
    return value


def check_status(status):
    return check("status", status)


def seen_members(name, value, seen):
    """Adds DEFINITION.MEMBER of every member that the value shows, by the definitions it refers to."""
    schema = DEFINITIONS[name]

    def walk(part, schema, path):
        if "$ref" in schema:
            path = schema["$ref"].rsplit("/", 1)[1]
            schema = DEFINITIONS[path]
        for choice in schema.get("anyOf", ()):
            if (part is None) == (choice.get("type") == "null"):
                walk(part, choice, path)
        if isinstance(part, dict):
            for key, below in part.items():
                if key in schema.get("properties", {}):
                    seen.add(f"{path}.{key}")
                    walk(below, schema["properties"][key], f"{path}.{key}")
        elif isinstance(part, list) and "items" in schema:
            for below in part:
                walk(below, schema["items"], path + "[]")
    walk(value, schema, name)
    return seen


def all_members(names):
    """DEFINITION.MEMBER of these definitions and of those they refer to."""
    members, done = set(), set()

    def walk(schema, path):
        if "$ref" in schema:
            path = schema["$ref"].rsplit("/", 1)[1]
            if path in done:
                return
            done.add(path)
            schema = DEFINITIONS[path]
        for choice in schema.get("anyOf", ()):
            walk(choice, path)
        for key, below in schema.get("properties", {}).items():
            members.add(f"{path}.{key}")
            walk(below, f"{path}.{key}")
        if "items" in schema:
            walk(schema["items"], path + "[]")
    for name in names:
        walk({"$ref": f"#/$defs/{name}"}, name)
    return members


def request_schema(row):
    """What the body of POST /api/v1/COMMAND holds, by a row of the daemon's table of commands."""
    def argument_schema(argument):
        kind = argument["type"]
        if kind in ("number", "integer"):
            return {"type": kind, "minimum": int(argument["low"]) if argument["low"] == int(argument["low"]) else argument["low"],
                    "maximum": int(argument["high"])}
        if kind == "choice":
            return {"enum": argument["choices"].split()}
        if kind == "flag":
            return {"type": "boolean"}
        if kind in ("commands", "objects"):
            return {"type": "array", "items": {"type": "object"}}
        return {"type": "string", "maxLength": argument["bytes"]}
    return {"type": "object", "properties": {a["name"]: argument_schema(a) for a in row["arguments"]} | {"id": {}},
            "required": [a["name"] for a in row["arguments"] if a["required"]], "additionalProperties": False}
