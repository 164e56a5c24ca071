# curl waits for Retry-After where a response has it, and otherwise 1, 2, 4 … seconds. It repeats a request that gets no
# connection or no response in time, but not one whose connection breaks.
curl -sS --fail-with-body --max-time 10 --retry 5 --retry-connrefused --retry-max-time 300 "$PETSTORE_URL/pets" \
  -H "Authorization: Bearer $PETSTORE_API_KEY"
