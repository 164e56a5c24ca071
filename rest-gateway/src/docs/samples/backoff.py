import os
import random
import sys
import time
import urllib.error
import urllib.request


def send(request, attempts=6):
    """Sends a request that may be repeated, and waits as the service says."""
    for attempt in range(attempts):
        pause = 2**attempt
        try:
            return urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as refused:
            retry_after = refused.headers["Retry-After"]
            if attempt == attempts - 1 or (retry_after is None and refused.code not in (408, 500, 502, 504)):
                sys.exit(f"{refused.code} {refused.read().decode()}")
            pause = int(retry_after or pause)
        except OSError as no_answer:
            if attempt == attempts - 1:
                sys.exit(str(no_answer))
        # At least what was asked for, and not all clients at the same moment.
        time.sleep(pause + random.random())


request = urllib.request.Request(
    os.environ["PETSTORE_URL"] + "/pets",
    headers={"Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"]},
)
with send(request) as response:
    print(response.read().decode())
