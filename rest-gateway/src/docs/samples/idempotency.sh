# Creates a pet, exactly one, however often the request has to be sent.

# Sends a request that may be repeated, waits as the service says, and prints
# the response's body.
send() {
  for pause in 1 2 4 8 16 ""; do
    : >head && : >body
    status=$(curl -sS -D head -o body -w '%{http_code}' --max-time 10 "$@") || status=none
    told=$(grep -i '^retry-after:' head | tr -cd 0-9)
    case $status in
      2*) cat body && return ;;
      none | 408 | 500 | 502 | 503 | 504) ;;
      *) [ -n "$told" ] || pause="" ;; # it would get the same response again
    esac
    # The day's limit, or a ban, may last for hours: do not sleep that long.
    if [ -z "$pause" ] || [ "${told:-0}" -gt 120 ]; then break; fi
    if [ "${told:-0}" -gt "$pause" ]; then pause=$told; fi
    # Not all clients at the same moment.
    sleep "$pause.$(($(od -An -N1 -tu1 /dev/urandom) % 10))"
  done
  cat body >&2
  return 1
}

# Once for the pet, not once for each attempt. If your program may restart,
# store the key with the pet first.
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
send "$PETSTORE_URL/pets" \
  -H "Authorization: Bearer $PETSTORE_API_KEY" \
  -H "Idempotency-Key: $key" \
  -H "Content-Type: application/json" \
  --data-raw '{"name":"Rex","categoryId":7,"status":"available"}'
