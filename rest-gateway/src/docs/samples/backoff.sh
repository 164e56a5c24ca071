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

send "$PETSTORE_URL/pets" -H "Authorization: Bearer $PETSTORE_API_KEY"
