BEGIN IMMEDIATE;
-- The last identifier that was assigned. The lock is held, so it stays so until the pets are added.
SELECT max(
    (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'), (SELECT coalesce(max(id), 0) FROM pets)
) AS last_id;
INSERT INTO create_requests (digest, pet_id, created_at)
    SELECT unhex(value ->> 0), last_id + key + 1, value ->> 1
    FROM json_each(?1), (
        SELECT max(
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'),
            (SELECT coalesce(max(id), 0) FROM pets)
        ) AS last_id
    )
    WHERE value ->> 0 IS NOT NULL
    ON CONFLICT DO NOTHING;
INSERT INTO pets (id, name, category_id, status)
    SELECT last_id + key + 1, value ->> 2, value ->> 3, value ->> 4
    FROM json_each(?1), (
        SELECT max(
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'),
            (SELECT coalesce(max(id), 0) FROM pets)
        ) AS last_id
    )
    WHERE value ->> 0 IS NULL
        OR last_id + key + 1 = (SELECT pet_id FROM create_requests WHERE digest = unhex(value ->> 0))
    RETURNING id;
COMMIT
