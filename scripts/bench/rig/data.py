"""Pets, accounts and keys, written into the database directly: millions of them in seconds."""

import hashlib, os, sqlite3, zlib

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX = "pet_live_"
UNLIMITED = 1_000_000_000


def key(number):
    """Returns the key of an account (crates/caller/src/api_key.rs: a prefix, 30 characters, and a CRC-32 in base 62)."""
    signed = f"{PREFIX}{hashlib.sha256(str(number).encode()).hexdigest()[:30]}"
    checksum, digits = zlib.crc32(signed.encode()), ""
    for _ in range(6):
        checksum, digit = divmod(checksum, 62)
        digits = BASE62[digit] + digits
    return signed + digits


def page_token(last_id):
    """Returns the cursor of the page after a pet in the list of all pets (proto/page_token.rs)."""
    version, all_pets = b"\1", b"\0"
    token = version + all_pets + last_id.to_bytes(8, "big")
    return token.hex() + f"{zlib.crc32(b'petstore page token' + token):08x}"


def rows(accounts):
    """Yields the rows of the tables `accounts` and `api_keys`."""
    for number in range(1, accounts + 1):
        written = key(number)
        digest = hashlib.sha256(written.encode()).digest()
        yield ((number, f"bench-{number}"),
               (f"00000000-0000-7000-8000-{number:012x}", number, digest, PREFIX, written[-4:]))


def fill(database, postgres, pets, accounts):
    """Fills a migrated store: pets with each status and with none, accounts without limits, one key for each."""
    if database.startswith("sqlite://"):
        fill_sqlite(database.removeprefix("sqlite://"), pets, accounts)
    else:
        fill_postgres(postgres, database.rsplit("/", 1)[1], pets, accounts)


def fill_sqlite(path, pets, accounts):
    with sqlite3.connect(path) as database:
        database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO pets (name, category_id, status) SELECT 'pet-' || i, i % 97, nullif(i % 4, 0) FROM n", (pets,))
        account = ("INSERT INTO accounts (id, name, plan, per_minute, per_day, created_at, revision) "
                   f"VALUES (?, ?, 'enterprise', {UNLIMITED}, {UNLIMITED}, 1, 0)")
        api_key = ("INSERT INTO api_keys (id, account_id, digest, prefix, last_four, created_at) "
                   "VALUES (?, ?, ?, ?, ?, 1)")
        for of_account, of_key in rows(accounts):
            database.execute(account, of_account)
            database.execute(api_key, of_key)
    database.close()


def fill_postgres(postgres, name, pets, accounts):
    postgres.psql(name, "INSERT INTO pets (name, category_id, status) "
                        f"SELECT 'pet-' || i, i % 97, nullif(i % 4, 0) FROM generate_series(1, {pets}) i")
    for copy, line in [
        ("accounts (id, name, plan, per_minute, per_day, created_at, revision)",
         lambda account, _: f"{account[0]}\t{account[1]}\tenterprise\t{UNLIMITED}\t{UNLIMITED}\t1\t0\n"),
        ("api_keys (id, account_id, digest, prefix, last_four, created_at)",
         lambda _, key: f"{key[0]}\t{key[1]}\t\\\\x{key[2].hex()}\t{key[3]}\t{key[4]}\t1\n"),
    ]:
        text = "".join(line(*row) for row in rows(accounts))
        postgres.psql(name, f"COPY {copy} FROM STDIN", input=text)
    # The state that autovacuum would leave, with everything written to disk.
    for table in ("pets", "accounts", "api_keys"):
        postgres.psql(name, f"VACUUM ANALYZE {table}")
    postgres.psql(name, "CHECKPOINT")


def keys_file(folder, accounts):
    """Writes the keys for the load generator, one per line, all of the same length."""
    path = os.path.join(folder, f"keys-{accounts}")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines(key(number) + "\n" for number in range(1, accounts + 1))
    return path


def key_file(folder, number):
    """Writes the key of one account."""
    path = os.path.join(folder, f"key-{number}")
    with open(path, "w") as file:
        file.write(key(number) + "\n")
    return path
