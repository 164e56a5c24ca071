# Prints every pet that can be bought: a JSON array for each page.
next="$PETSTORE_URL/pets?limit=100&status=available"
while [ -n "$next" ]; do
  cursor=$(curl -sS --fail-with-body -o page.json -w '%header{x-next-cursor}' \
    -H "Authorization: Bearer $PETSTORE_API_KEY" "$next") || break
  cat page.json && echo
  next=${cursor:+"$PETSTORE_URL/pets?limit=100&cursor=$cursor"}
done
