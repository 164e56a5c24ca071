SELECT id, name, category_id, status FROM pets WHERE id IN (SELECT value FROM json_each(?))
