SELECT list - 1, page.*
FROM unnest($1, $2, $3) WITH ORDINALITY AS wanted (status, after, size, list)
-- A row for each list, with an array for each column: a row for each pet would cost more on both sides.
CROSS JOIN LATERAL (
    SELECT array_agg(id), array_agg(name), array_agg(category_id), array_agg(status)
    FROM (
        SELECT id, name, category_id, status FROM pets
        WHERE id > wanted.after
        ORDER BY id
        LIMIT wanted.size
    ) AS pet
) AS page
WHERE wanted.status = 0
UNION ALL
SELECT list - 1, page.*
FROM unnest($1, $2, $3) WITH ORDINALITY AS wanted (status, after, size, list)
CROSS JOIN LATERAL (
    SELECT array_agg(id), array_agg(name), array_agg(category_id), array_agg(status)
    FROM (
        SELECT id, name, category_id, status FROM pets
        -- The order of the index over status and identifier, which no other index has: a plan that was made once for
        -- any values is right for all of them.
        WHERE status <= wanted.status AND (status, id) > (wanted.status, wanted.after)
        ORDER BY status, id
        LIMIT wanted.size
    ) AS pet
) AS page
WHERE wanted.status <> 0
