import http.client
import os
import random
import sys
import time
import urllib.error
import urllib.request


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
            # The day's limit, or a ban, may last for hours: do not sleep that long.
            if attempt == attempts - 1 or not may_pass or pause > 120:
                sys.exit(f"{refused.code} {refused.read().decode()}")
        except (OSError, http.client.HTTPException) as no_answer:
            if attempt == attempts - 1:
                sys.exit(str(no_answer))
        # At least what was asked for, and not all clients at the same moment.
        time.sleep(pause + random.random())


request = urllib.request.Request(
    os.environ["PETSTORE_URL"] + "/pets",
    headers={"Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"]},
)
print(send(request))
