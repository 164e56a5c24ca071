# Prints the name of every pet that can be bought.
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

query = {"limit": "100", "status": "available"}
while True:
    request = urllib.request.Request(
        os.environ["PETSTORE_URL"] + "/pets?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"]},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            for pet in json.load(response):
                print(pet["name"])
            cursor = response.headers["X-Next-Cursor"]
    except urllib.error.HTTPError as refused:
        sys.exit(f"{refused.code} {refused.read().decode()}")
    if cursor is None:
        break
    query["cursor"] = cursor
