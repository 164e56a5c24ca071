# Prints the name of every animal that can be bought.
import json
import os
import urllib.parse
import urllib.request

query = {"limit": "100", "status": "available"}
while True:
    request = urllib.request.Request(
        os.environ["PETSTORE_URL"] + "/pets?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        for pet in json.load(response):
            print(pet["name"])
        cursor = response.headers["X-Next-Cursor"]
    if cursor is None:
        break
    query["cursor"] = cursor
