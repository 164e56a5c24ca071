"""Reports how a newer OpenAPI document breaks the clients of an older one.

Usage: openapi.py OLDER NEWER       exit code 1 if anything breaks

The interface changes only by addition. So nothing that a client may rely on may go: paths, operations, parameters,
members, values of enumerations, statuses, header fields, media types. And nothing may be asked for that was not:
parameters, members, narrower values. What is new and optional is no break, nor is a new status or a new value of an
enumeration in an answer: clients are told to expect them. Operations that are marked `x-stability: experimental` in the
older document may change.
"""

import json
import sys

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Bounds of values, and True if a larger bound disallows values that were allowed.
BOUNDS = {
    "minimum": True, "exclusiveMinimum": True, "minLength": True, "minItems": True, "minProperties": True,
    "maximum": False, "exclusiveMaximum": False, "maxLength": False, "maxItems": False, "maxProperties": False,
}
# Patterns of what clients send that were replaced by wider ones: each value that fits the first fits the second. A person
# has to judge that; openapi_test.py shows it for samples.
WIDENED = {
    # Names: the newer one does without \u, which RE2 and PCRE do not have, and so covers ASCII only.
    (
        r"^[^\u0000-\u001F\u007F-\u009F]*[^\u0000-\u0020\u007F-\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]"
        r"[^\u0000-\u001F\u007F-\u009F]*$",
        r"^[^\x00-\x1F\x7F]*[^\x00-\x20\x7F][^\x00-\x1F\x7F]*$",
    ),
}

# Members of responses that clients must not require any longer. They are in all responses of version 1; that strict
# clients of 1.1.1 require them is why they stay.
MADE_OPTIONAL = {("GET /usage 200.days[]", "byStatus"), ("GET /usage 200.days[]", "getPet")}


class Comparison:
    """Findings of a comparison of two documents."""

    def __init__(self, older, newer):
        self.older, self.newer = older, newer
        self.breaks = []
        self.seen = set()

    def report(self, place, what):
        self.breaks.append(f"{place}: {what}")

    @staticmethod
    def resolve(document, value):
        """Follows `$ref`; members beside it, such as a description, add to what it leads to."""
        while isinstance(value, dict) and "$ref" in value:
            target = document
            for step in value["$ref"].removeprefix("#/").split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            value = {**target, **{name: member for name, member in value.items() if name != "$ref"}}
        return value

    def both(self, older, newer):
        return self.resolve(self.older, older or {}), self.resolve(self.newer, newer or {})

    def documents(self):
        gone = {s["url"] for s in self.older.get("servers", [])} - {s["url"] for s in self.newer.get("servers", [])}
        for url in sorted(url for url in gone if "//127.0.0.1" not in url):  # which is another service on each machine
            self.report("servers", f"{url} is gone")
        for path, older in self.older["paths"].items():
            newer = self.newer["paths"].get(path)
            for method in (method for method in METHODS if method in older):
                place = f"{method.upper()} {path}"
                if older[method].get("x-stability") == "experimental":
                    continue
                if newer is None or method not in newer:
                    self.report(place, "is gone")
                    continue
                self.operation(place, older[method], newer[method], older, newer)

    def operation(self, place, older, newer, older_path, newer_path):
        if older.get("operationId") != newer.get("operationId"):
            self.report(place, "has another operationId")
        if older.get("security", self.older.get("security")) != newer.get("security", self.newer.get("security")):
            self.report(place, "asks for other credentials")
        self.parameters(
            place,
            older_path.get("parameters", []) + older.get("parameters", []),
            newer_path.get("parameters", []) + newer.get("parameters", []),
        )
        self.request_body(place, older.get("requestBody"), newer.get("requestBody"))
        for status, response in older.get("responses", {}).items():
            if status not in newer.get("responses", {}):
                self.report(place, f"no longer answers {status}")
                continue
            self.response(f"{place} {status}", *self.both(response, newer["responses"][status]))

    def parameters(self, place, older, newer):
        def by_name(document, parameters):
            resolved = (self.resolve(document, parameter) for parameter in parameters)
            return {(parameter["in"], parameter["name"]): parameter for parameter in resolved}

        older, newer = by_name(self.older, older), by_name(self.newer, newer)
        for key, parameter in older.items():
            there = f"{place} parameter {key[1]}"
            if key not in newer:
                self.report(there, "is gone")
                continue
            if newer[key].get("required") and not parameter.get("required"):
                self.report(there, "is now required")
            self.schema(there, parameter.get("schema"), newer[key].get("schema"), asked=True)
        for key, parameter in newer.items():
            if key not in older and parameter.get("required"):
                self.report(f"{place} parameter {key[1]}", "is new and required")

    def request_body(self, place, older, newer):
        if older is None:
            if self.resolve(self.newer, newer or {}).get("required"):
                self.report(place, "now requires a body")
            return
        if newer is None:
            self.report(place, "no longer takes a body")
            return
        older, newer = self.both(older, newer)
        if newer.get("required") and not older.get("required"):
            self.report(place, "now requires a body")
        self.content(f"{place} body", older.get("content", {}), newer.get("content", {}), asked=True)

    def response(self, place, older, newer):
        fields = {name.lower(): field for name, field in newer.get("headers", {}).items()}
        for name, field in older.get("headers", {}).items():
            if name.lower() not in fields:
                self.report(place, f"no longer has the header field {name}")
                continue
            field, new_field = self.both(field, fields[name.lower()])
            if field.get("required") and not new_field.get("required"):
                self.report(place, f"may lack the header field {name}")
            self.schema(f"{place} {name}", field.get("schema"), new_field.get("schema"), asked=False)
        self.content(place, older.get("content", {}), newer.get("content", {}), asked=False)

    def content(self, place, older, newer, asked):
        for media_type, content in older.items():
            if media_type not in newer:
                self.report(place, f"{media_type} is gone")
                continue
            self.schema(place, content.get("schema"), newer[media_type].get("schema"), asked)

    def schema(self, place, older, newer, asked):
        """Compares the schemas of a value: one that clients send (`asked`), or one that they receive."""
        key = (json.dumps(older, sort_keys=True), json.dumps(newer, sort_keys=True), asked, place)
        if key in self.seen:
            return  # a schema that refers to itself
        self.seen.add(key)
        older, newer = self.both(older, newer)
        self.types(place, older, newer, asked)
        if older.get("format") != newer.get("format") and (older.get("format") or asked):
            self.report(place, "has another format")
        gone = [value for value in older.get("enum", []) if "enum" in newer and value not in newer["enum"]]
        for value in gone:
            self.report(place, f"the value {json.dumps(value)} is gone")
        if asked:
            self.bounds(place, older, newer)
        self.members(place, older, newer, asked)
        if "items" in older or "items" in newer:
            self.schema(f"{place}[]", older.get("items"), newer.get("items"), asked)
        for union in ("allOf", "anyOf", "oneOf"):
            olds, news = older.get(union, []), newer.get(union, [])
            if len(olds) != len(news):
                self.report(place, f"has another number of alternatives in {union}")
            for number, (old, new) in enumerate(zip(olds, news)):
                self.schema(f"{place} {union}[{number}]", old, new, asked)

    def types(self, place, older, newer, asked):
        def types(schema):
            written = schema.get("type", [])
            return set(written if isinstance(written, list) else [written])

        older, newer = types(older), types(newer)
        if asked and newer and (not older or older - newer):
            self.report(place, "no longer takes every type that it took")
        if not asked and older and (not newer or newer - older):
            self.report(place, "may be of another type than before")

    def bounds(self, place, older, newer):
        if "enum" in newer and "enum" not in older:
            self.report(place, "is now one of a few values")
        older_pattern, pattern = older.get("pattern"), newer.get("pattern")
        if pattern and older_pattern != pattern and (older_pattern, pattern) not in WIDENED:
            self.report(place, "has to match another pattern")
        for bound, is_lower in BOUNDS.items():
            if bound not in newer:
                continue
            new, old = newer[bound], older.get(bound)
            if old is None or (new > old if is_lower else new < old):
                self.report(place, f"{bound} is now {new}")

    def members(self, place, older, newer, asked):
        older_members, newer_members = older.get("properties", {}), newer.get("properties", {})
        for name, member in older_members.items():
            if name in newer_members:
                self.schema(f"{place}.{name}", member, newer_members[name], asked)
            else:
                self.report(place, f"the member {name} is gone")
        older_required, newer_required = set(older.get("required", [])), set(newer.get("required", []))
        if asked:
            for name in sorted(newer_required - older_required):
                self.report(place, f"the member {name} is now required")
            if newer.get("additionalProperties") is False and older.get("additionalProperties") is not False:
                self.report(place, "no longer takes unknown members")
        else:
            for name in sorted(older_required - newer_required):
                if (place, name) not in MADE_OPTIONAL:
                    self.report(place, f"the member {name} may now be missing")


def compare(older, newer):
    """Returns the breaking changes, in words; an empty list if there are none."""
    comparison = Comparison(older, newer)
    comparison.documents()
    return comparison.breaks


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as older, open(sys.argv[2], encoding="utf-8") as newer:
        breaks = compare(json.load(older), json.load(newer))
    for what in breaks:
        print(what, file=sys.stderr)
    sys.exit(1 if breaks else 0)


if __name__ == "__main__":
    main()
