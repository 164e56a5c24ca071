-- Every table, each after those that it refers to. Times are milliseconds since the Unix epoch, in bigint.
--
-- {id} is an identifier that the database assigns, upward from 1, and never assigns again; {bytes} is the type of
-- binary data. SQLite and PostgreSQL write these two differently, and SQLite has another word for bigint.

-- The catalogue.
CREATE TABLE pets (
    id {id},
    name text NOT NULL,
    category_id bigint NOT NULL,
    status smallint
);
-- A page of one status; a page of all is served by the primary key.
CREATE INDEX pets_status_id ON pets (status, id);

CREATE TABLE orders (
    id {id},
    pet_id bigint NOT NULL,
    quantity bigint NOT NULL,
    ship_date bigint,
    status smallint NOT NULL,
    FOREIGN KEY (pet_id) REFERENCES pets (id)
);
-- The foreign key: without it, a change of one pet would read all orders.
CREATE INDEX orders_pet_id ON orders (pet_id);

-- Requests that added a pet, kept for a day so that a repeated one adds one pet. Written in one transaction with the
-- pet, which stays.
CREATE TABLE create_requests (
    digest {bytes} NOT NULL PRIMARY KEY, -- SHA-256 of the name
    pet_id bigint NOT NULL,
    created_at bigint NOT NULL
);
-- Deletion of old names.
CREATE INDEX create_requests_created_at ON create_requests (created_at);

-- Positions of imports, so that no line of one is added twice. Kept permanently: a file that was imported once is not
-- imported again by mistake.
CREATE TABLE imports (
    import_id text NOT NULL PRIMARY KEY,
    last_line bigint NOT NULL,
    created bigint NOT NULL,
    updated_at bigint NOT NULL
);

-- Holders of API keys, with their plans.
CREATE TABLE accounts (
    id {id},
    name text NOT NULL UNIQUE,
    plan text NOT NULL,
    per_minute bigint, -- only plan enterprise has custom numbers
    per_day bigint,
    created_at bigint NOT NULL,
    revision bigint NOT NULL,
    suspended_at bigint,
    suspend_reason text
);
-- Accounts that changed since a revision. Every gateway requests them once a second.
CREATE INDEX accounts_revision ON accounts (revision);

-- API keys: never the key itself, only its digest.
CREATE TABLE api_keys (
    id text NOT NULL PRIMARY KEY, -- a UUIDv7, as written in logs and lists
    account_id bigint NOT NULL,
    digest {bytes} NOT NULL UNIQUE,
    prefix text NOT NULL,
    last_four text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    label text,
    FOREIGN KEY (account_id) REFERENCES accounts (id)
);
CREATE INDEX api_keys_account_id ON api_keys (account_id);

-- The counter of changes to accounts and keys: always one row. It is raised in the transaction of the change itself.
-- The row's lock makes the next change wait for that commit, so that revisions become visible in their order on
-- PostgreSQL too.
CREATE TABLE revision (
    id smallint NOT NULL PRIMARY KEY CHECK (id = 1),
    value bigint NOT NULL
);
INSERT INTO revision (id, value) VALUES (1, 0);

-- The store's name, which lets gateways of several installations share a Redis: always one row.
CREATE TABLE installation (
    id smallint NOT NULL PRIMARY KEY CHECK (id = 1),
    name text NOT NULL
);

-- Bans of keys: the last one of each, until a day after its end.
CREATE TABLE bans (
    key_id text NOT NULL PRIMARY KEY,
    imposed_at bigint NOT NULL,
    ends_at bigint NOT NULL, -- equal to imposed_at if the key's bans were lifted then
    origin text NOT NULL DEFAULT 'limiter',
    reason text,
    FOREIGN KEY (key_id) REFERENCES api_keys (id)
);
-- Deletion of bans that are over, and the list of those in force.
CREATE INDEX bans_ends_at ON bans (ends_at);

-- Requests of accounts by UTC day. There is no foreign key to the account: one unknown account must not make a
-- gateway's whole report fail permanently.
CREATE TABLE usage_days (
    account_id bigint NOT NULL,
    day bigint NOT NULL, -- days since 1970-01-01
    succeeded bigint NOT NULL,
    client_errors bigint NOT NULL,
    refused bigint NOT NULL,
    server_errors bigint NOT NULL,
    get_pet bigint NOT NULL,
    PRIMARY KEY (account_id, day)
);
-- Deletion of old days. An account's days are served by the primary key.
CREATE INDEX usage_days_day ON usage_days (day);

-- Reports of gateways that were counted.
CREATE TABLE usage_reporters (
    id text NOT NULL PRIMARY KEY, -- a gateway's run
    last_report bigint NOT NULL, -- its number
    reported_at bigint NOT NULL
);

-- Requests of keys by minute.
CREATE TABLE usage_minutes (
    account_id bigint NOT NULL,
    minute bigint NOT NULL, -- minutes since 1970-01-01T00:00Z
    key_id text NOT NULL,
    succeeded bigint NOT NULL,
    client_errors bigint NOT NULL,
    refused bigint NOT NULL,
    server_errors bigint NOT NULL,
    get_pet bigint NOT NULL,
    PRIMARY KEY (account_id, minute, key_id)
);
-- Sums over all accounts, and deletion. An account's minutes are served by the primary key.
CREATE INDEX usage_minutes_minute ON usage_minutes (minute);

-- Samples of refused requests.
CREATE TABLE refusals (
    id {id},
    request_id text NOT NULL,
    refused_at bigint NOT NULL,
    cause bigint NOT NULL, -- a RefusalCause of the contract
    account_id bigint NOT NULL, -- 0: no valid key
    key_id text,
    quota bigint, -- the limit, if it was one
    since bigint,
    until bigint,
    repeats bigint NOT NULL -- number of further ones that are not kept
);
CREATE INDEX refusals_request ON refusals (request_id);
-- An account's refusals, also those of one key, and their number by cause.
CREATE INDEX refusals_account ON refusals (account_id, cause, refused_at);
-- Deletion of old refusals.
CREATE INDEX refusals_time ON refusals (refused_at);

CREATE TABLE refusal_counts (
    minute bigint NOT NULL,
    cause bigint NOT NULL,
    requests bigint NOT NULL,
    PRIMARY KEY (minute, cause)
);

-- Operators are never removed, so that a name in the audit always refers to one operator.
CREATE TABLE operators (
    id {id},
    name text NOT NULL UNIQUE,
    role text NOT NULL,
    digest {bytes} NOT NULL UNIQUE,
    last_four text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    last_used_at bigint
);

-- Changes by operators. There are no foreign keys: an event records the past, and outlives its subject.
CREATE TABLE audit_events (
    id {id},
    created_at bigint NOT NULL,
    operator text NOT NULL,
    client_address text NOT NULL,
    action text NOT NULL,
    account_id bigint,
    account text,
    key_id text,
    target_operator text,
    before text, -- JSON
    after text -- JSON
);
CREATE INDEX audit_events_created_at ON audit_events (created_at, id);
CREATE INDEX audit_events_operator ON audit_events (operator, id);
CREATE INDEX audit_events_account_id ON audit_events (account_id, id);
CREATE INDEX audit_events_account ON audit_events (account, id);
CREATE INDEX audit_events_key_id ON audit_events (key_id, id);

-- Sessions of operators. There is no foreign key: operators are never removed.
CREATE TABLE operator_sessions (
    digest {bytes} NOT NULL PRIMARY KEY,
    operator_id bigint NOT NULL,
    expires_at bigint NOT NULL
);
