# Prints every pet that can be bought: a JSON array for each page.
next="$PETSTORE_URL/pets?limit=100&status=available"
while [ -n "$next" ]; do
  curl -sS --fail-with-body --max-time 10 -D head -o page.json \
    -H "Authorization: Bearer $PETSTORE_API_KEY" "$next" ||
    { cat page.json >&2 && exit 1; }
  cat page.json && echo
  cursor=$(grep -i '^x-next-cursor:' head | tr -d ' \r' | cut -d: -f2)
  next=${cursor:+"$PETSTORE_URL/pets?limit=100&cursor=$cursor"}
done
