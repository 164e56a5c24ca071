"""A small session with the generated Python client. mypy --strict checks it first: its types are half of the test."""

import os
import re
import time
from collections.abc import Mapping

from petstore_client import AuthenticatedClient
from petstore_client.api.pets import create_pet, get_pet, list_pets
from petstore_client.models import Error, NewPet, Pet, PetStatus
from petstore_client.types import UNSET, Response, Unset

BASE_URL = os.environ["PETSTORE_BASE_URL"]
PER_MINUTE = 20  # of the account that testing/sdk/run makes
PAGE = 2  # pets on a page
LARGEST = 2**63 - 1  # of int64: Python's integers are exact

client = AuthenticatedClient(base_url=BASE_URL, token=os.environ["PETSTORE_API_KEY"])


def assert_rate_headers(headers: Mapping[str, str]) -> None:
    assert headers["X-RateLimit-Limit"] == str(PER_MINUTE), headers
    assert re.fullmatch(r"\d+", headers["X-RateLimit-Remaining"]), headers
    assert int(headers["X-RateLimit-Reset"]) > time.time() - 1, headers


def assert_error(response: Response[Error | Pet] | Response[Error | list[Pet]], status: int, code: str) -> None:
    error = response.parsed
    assert response.status_code == status, response
    assert isinstance(error, Error), response
    assert (error.status, error.code) == (status, code), error
    assert error.message


def create(name: str, category: int, status: PetStatus | Unset = UNSET) -> Pet:
    response = create_pet.sync_detailed(client=client, body=NewPet(name=name, category_id=category, status=status))
    assert response.status_code == 201, response
    assert isinstance(response.parsed, Pet)
    assert_rate_headers(response.headers)
    return response.parsed


# Add three pets and fetch one.
rex = create("Rex", 7, PetStatus.AVAILABLE)
mia = create("Mia 🐈", LARGEST)
tom = create("Tom", 3, PetStatus.SOLD)
assert (mia.name, mia.category_id, mia.status) == ("Mia 🐈", LARGEST, UNSET), mia
assert get_pet.sync(rex.id, client=client) == rex

# Walk through the pages: the header X-Next-Cursor leads to the next one, and is absent on the last.
pets: list[Pet] = []
cursor: str | Unset | None = UNSET
while cursor is not None:
    page = list_pets.sync_detailed(client=client, limit=PAGE, cursor=cursor)
    assert isinstance(page.parsed, list), page  # otherwise an Error
    pets += page.parsed
    cursor = page.headers.get("X-Next-Cursor")
assert pets == [rex, mia, tom], pets
assert_rate_headers(page.headers)
assert list_pets.sync(client=client, status=PetStatus.SOLD) == [tom]

# Errors have a type, whatever the status.
assert_error(create_pet.sync_detailed(client=client, body=NewPet(name=" ", category_id=1)), 400, "VALIDATION_FAILED")
assert_error(list_pets.sync_detailed(client=client, limit=101), 400, "INVALID_PARAMETER")
stranger = list_pets.sync_detailed(client=AuthenticatedClient(base_url=BASE_URL, token="not-a-key"))
assert_error(stranger, 401, "INVALID_API_KEY")
assert stranger.headers["WWW-Authenticate"].startswith("Bearer ")
assert_error(get_pet.sync_detailed(999_999, client=client), 404, "PET_NOT_FOUND")

# Over the limit, the response says how long to wait.
for _ in range(PER_MINUTE + 1):
    refused = list_pets.sync_detailed(client=client)
    if refused.status_code != 200:
        break
assert_error(refused, 429, "RATE_LIMITED")
assert_rate_headers(refused.headers)
assert refused.headers["X-RateLimit-Remaining"] == "0"
assert 1 <= int(refused.headers["Retry-After"]) <= 60, refused.headers

print("the Python client: a whole session, typed")
