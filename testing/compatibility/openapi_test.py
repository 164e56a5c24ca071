"""Tests that every kind of breaking change is found in a document, and that no addition counts as one.

Usage: openapi_test.py DOCUMENT [OPTIONS OF unittest]
"""

import copy
import json
import pathlib
import re
import sys
import unittest

from openapi import WIDENED, compare

DOCUMENT = json.loads(pathlib.Path(sys.argv.pop(1)).read_text(encoding="utf-8"))


def breaks(change):
    newer = copy.deepcopy(DOCUMENT)
    change(newer)
    assert newer != DOCUMENT, "the change changes nothing"
    return compare(DOCUMENT, newer)


def listing(document):
    return document["paths"]["/pets"]["get"]


def field(document):
    return document["components"]["headers"]["RateLimitLimit"]


def schema(document, name):
    return document["components"]["schemas"][name]


class Breaks(unittest.TestCase):
    def assert_found(self, change, words):
        self.assertTrue(any(words in line for line in breaks(change)), f"{words!r} is not in {breaks(change)}")

    def test_what_goes(self):
        for change, words in [
            (lambda d: d["paths"].pop("/pets/{petId}"), "GET /pets/{petId}: is gone"),
            (lambda d: d["paths"]["/pets"].pop("post"), "POST /pets: is gone"),
            (lambda d: listing(d).update(operationId="list"), "has another operationId"),
            (lambda d: listing(d)["parameters"].pop(0), "parameter limit: is gone"),
            (lambda d: listing(d)["responses"].pop("401"), "no longer answers 401"),
            (lambda d: listing(d)["responses"]["200"]["headers"].pop("X-RateLimit-Limit"), "X-RateLimit-Limit"),
            (lambda d: listing(d)["responses"]["200"]["content"].clear(), "application/json is gone"),
            (lambda d: d["paths"]["/pets"]["post"].pop("requestBody"), "no longer takes a body"),
            (lambda d: schema(d, "Pet")["properties"].pop("status"), "the member status is gone"),
            (lambda d: schema(d, "Pet")["required"].remove("name"), "the member name may now be missing"),
            (lambda d: schema(d, "PetStatus")["enum"].remove("sold"), 'the value "sold" is gone'),
            (lambda d: d["servers"].pop(0), "servers: "),
        ]:
            with self.subTest(words):
                self.assert_found(change, words)

    def test_what_is_asked_for(self):
        required = {"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}
        for change, words in [
            (lambda d: listing(d)["parameters"].append(required), "parameter q: is new and required"),
            (lambda d: d["components"]["parameters"]["Limit"].update(required=True), "limit: is now required"),
            (lambda d: d["components"]["parameters"]["Limit"]["schema"].update(maximum=50), "maximum is now 50"),
            (lambda d: schema(d, "NewPet")["required"].append("status"), "the member status is now required"),
            (lambda d: schema(d, "NewPet")["properties"]["name"].update(maxLength=9), "maxLength is now 9"),
            (lambda d: schema(d, "NewPet")["properties"]["name"].update(pattern="^a"), "another pattern"),
            (lambda d: schema(d, "NewPet")["properties"]["categoryId"].update(type="string"), "every type"),
            (lambda d: schema(d, "NewPet").update(additionalProperties=False), "unknown members"),
            (lambda d: listing(d).update(security=[{"other": []}]), "other credentials"),
        ]:
            with self.subTest(words):
                self.assert_found(change, words)

    def test_what_is_answered(self):
        for change, words in [
            (lambda d: schema(d, "Pet")["properties"]["id"].update(type="string"), "another type"),
            (lambda d: schema(d, "Pet")["properties"]["id"].update(format="int32"), "another format"),
            (lambda d: field(d).update(schema={"type": "string"}), "X-RateLimit-Limit: may be of another type"),
            (lambda d: field(d).update(required=False), "may lack the header field X-RateLimit-Limit"),
            (lambda d: schema(d, "Pets").update(items={"type": "string"}), "another type"),
        ]:
            with self.subTest(words):
                self.assert_found(change, words)


class Additions(unittest.TestCase):
    def test_no_addition_is_a_break(self):
        self.assertEqual(compare(DOCUMENT, DOCUMENT), [])
        optional = {"name": "q", "in": "query", "schema": {"type": "string"}}
        for change in [
            lambda d: d["paths"].update({"/new": {"get": {"responses": {}}}}),
            lambda d: listing(d)["parameters"].append(optional),
            lambda d: listing(d)["responses"].update({"418": {"description": "a teapot"}}),
            lambda d: listing(d)["responses"]["200"]["headers"].update({"X-New": {"schema": {}}}),
            lambda d: schema(d, "Pet")["properties"].update(colour={"type": "string"}),
            lambda d: schema(d, "NewPet")["properties"].update(colour={"type": "string"}),
            lambda d: schema(d, "NewPet")["properties"]["name"].update(maxLength=1000),
            lambda d: schema(d, "PetStatus")["enum"].append("reserved"),
            lambda d: listing(d).update(deprecated=True, description="other words"),
        ]:
            self.assertEqual(breaks(change), [])

    def test_a_pattern_may_be_replaced_by_a_wider_one(self):
        parts = ["", "a", "É", " ", "\u00a0", "\u2028", "\u3000", "\ufeff", "\x00", "\x1f", "\x7f", "\x85", "\x9f", "🐈", "\n"]
        values = [a + b + c for a in parts for b in parts for c in parts]
        for older, newer in WIDENED:
            fitting = [value for value in values if re.search(older, value)]
            self.assertGreater(len(fitting), 100)
            self.assertEqual([value for value in fitting if not re.search(newer, value)], [])
            document = copy.deepcopy(DOCUMENT)
            schema(document, "NewPet")["properties"]["name"]["pattern"] = older
            self.assertEqual(compare(document, DOCUMENT), [])
            self.assertIn("another pattern", " ".join(compare(DOCUMENT, document)))

    def test_a_pattern_of_a_response_may_go(self):
        document = copy.deepcopy(DOCUMENT)
        schema(document, "Pet")["properties"]["name"]["pattern"] = "^.*$"
        self.assertEqual(compare(document, DOCUMENT), [])


if __name__ == "__main__":
    unittest.main()
