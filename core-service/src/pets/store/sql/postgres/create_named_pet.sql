WITH added AS (
    INSERT INTO pets (name, category_id, status)
    SELECT $3, $4, $5 WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = $1)
    RETURNING id
)
-- Of two concurrent statements that add one name, and both see it free, one waits here for the other to commit, and
-- then violates the primary key.
INSERT INTO create_requests (digest, pet_id, created_at) SELECT $1, id, $2 FROM added RETURNING pet_id
