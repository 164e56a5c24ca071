# Creates a pet, exactly one, however often the request has to be sent. --retry-all-errors covers lost responses and 409;
# it also repeats, in vain, what is rejected for good.
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
curl -sS --fail-with-body --retry 5 --retry-all-errors --max-time 10 "$PETSTORE_URL/pets" \
  -H "Authorization: Bearer $PETSTORE_API_KEY" \
  -H "Idempotency-Key: $key" \
  -H "Content-Type: application/json" \
  --data-raw '{"name":"Rex","categoryId":7,"status":"available"}'
