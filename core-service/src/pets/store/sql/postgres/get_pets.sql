SELECT found.*
FROM unnest($1) AS wanted (id)
-- The first pet at or after each identifier, if its identifier is equal: only the primary key has this order. A search
-- for equal ones could also read all of another index, and a plan that was made while the table was empty does.
CROSS JOIN LATERAL (
    SELECT id, name, category_id, status FROM pets WHERE id >= wanted.id ORDER BY id LIMIT 1
) AS found
WHERE found.id = wanted.id
