# Creates a pet, exactly one, however often the request has to be sent.
import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
import uuid


def send(request, attempts=6):
    """Sends a request that may be repeated, waits as the service says, and
    returns the response's body."""
    for attempt in range(attempts):
        pause = 2**attempt
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.read().decode()
        except urllib.error.HTTPError as refused:
            retry_after = refused.headers["Retry-After"]
            may_pass = (retry_after is not None
                        or refused.code in (408, 500, 502, 503, 504))
            pause = max(pause, int(retry_after or 0))
            if attempt == attempts - 1 or not may_pass or pause > 120:
                sys.exit(f"{refused.code} {refused.read().decode()}")
        except (OSError, http.client.HTTPException) as no_answer:
            # The response was lost: was the pet created? The key makes it safe
            # to ask again.
            if attempt == attempts - 1:
                sys.exit(str(no_answer))
        time.sleep(pause + random.random())


# Once for the pet, not once for each attempt. If your program may restart,
# store the key with the pet first.
key = str(uuid.uuid4())
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
print(send(request))
