# curl waits for Retry-After where an answer has it, and otherwise 1, 2, 4 … seconds.
curl -sS --fail-with-body --retry 5 --retry-max-time 300 "$PETSTORE_URL/pets" \
  -H "Authorization: Bearer $PETSTORE_API_KEY"
