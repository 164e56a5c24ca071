# Adds a pet, exactly one, however often the request has to be sent.
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

key = str(uuid.uuid4())  # once for the pet, not once for each attempt
for attempt in range(6):
    request = urllib.request.Request(
        os.environ["PETSTORE_URL"] + "/pets",
        method="POST",
        data=json.dumps({"name": "Rex", "categoryId": 7, "status": "available"}).encode(),
        headers={
            "Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"],
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            print(response.read().decode())
            break
    except urllib.error.HTTPError as refused:
        if refused.code < 500:
            sys.exit(f"{refused.code} {refused.read().decode()}")
    except (OSError, http.client.HTTPException):
        pass  # the answer was lost: was the pet added? The key makes it safe to ask again
    time.sleep(2**attempt)
else:
    sys.exit("There is no answer.")
