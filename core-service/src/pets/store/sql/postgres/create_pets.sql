WITH wanted AS MATERIALIZED (
    SELECT set_config('lock_timeout', $1, true), wanted.*
    FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY
        AS wanted (digest, created_at, name, category_id, status, number)
    -- OFFSET 0 keeps the planner from making a join of the search, which could read all names.
    WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = wanted.digest OFFSET 0)
), added AS (
    -- Identifiers are assigned in the order of the calls, since they are assigned after the rows are sorted.
    INSERT INTO pets (name, category_id, status)
    SELECT name, category_id, nullif(status, 0) FROM wanted ORDER BY number
    RETURNING id
), matched AS (
    SELECT number, digest, created_at, id
    FROM (SELECT *, row_number() OVER (ORDER BY number) AS place FROM wanted) AS wanted
    JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place FROM added) AS added USING (place)
), named AS (
    -- In sorted order, so that two cores never deadlock.
    INSERT INTO create_requests (digest, pet_id, created_at)
    SELECT digest, id, created_at FROM matched WHERE digest <> '' ORDER BY digest
)
SELECT number - 1, id FROM matched
