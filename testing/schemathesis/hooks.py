"""Facts that schemathesis cannot know from the document. schemathesis.toml has the exceptions and their reasons."""

import re

import schemathesis

INT64 = range(-(2**63), 2**63)
# Names that the pattern of the document allows, because it covers ASCII only.
CONTROL = re.compile("[\x80-\x9f]")
BLANK = re.compile("[ \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


@schemathesis.hook
def map_body(ctx, body):
    """Changes what is valid by the document, but not to the service: whole numbers with a fraction, such as 7.0, and
    names with control characters or blanks outside ASCII."""
    name = body.get("name") if isinstance(body, dict) else None
    if isinstance(name, str) and not name.isascii():
        name = CONTROL.sub("x", name)
        body["name"] = "x" if BLANK.fullmatch(name) else name
    category = body.get("categoryId") if isinstance(body, dict) else None
    if isinstance(category, float) and category.is_integer() and int(category) in INT64:
        body["categoryId"] = int(category)
    return body


@schemathesis.check
def documented_error_code(ctx, response, case):
    """An Error body carries its HTTP status and one of the codes that the document lists for its response."""
    documented = case.operation.responses.find_by_status_code(response.status_code)
    codes = documented.definition.get("x-error-codes") if documented else None
    if codes is not None and response.request.method != "HEAD":
        error = response.json()
        assert error["code"] in codes, f"{error['code']} is not among {codes}"
        assert error["status"] == response.status_code, f"the body says {error['status']}"


@schemathesis.check
def valid_lists_are_accepted_but_for_their_cursor(ctx, response, case):
    """Replaces positive_data_acceptance, which cannot distinguish a generated cursor from a real one."""
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if case.operation.label in ("GET /pets", "GET /store/orders") and is_valid and response.status_code == 400:
        code = response.json()["code"]
        assert code == "INVALID_CURSOR" and "cursor" in case.query, f"a valid list was refused: {code}"
