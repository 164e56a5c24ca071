SELECT * FROM (
    SELECT ? AS list, id, name, category_id, status FROM pets WHERE id > ? ORDER BY id LIMIT ?
)
