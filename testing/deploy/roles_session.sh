#!/usr/bin/env bash
# Tests the roles that deploy/compose/roles.sh creates, on a new PostgreSQL: the owner migrates, and the service reads and
# writes rows and can change nothing else.
#
# Usage: testing/deploy/roles_session.sh BINARY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
binary=$(realpath "$1")
programs=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)

# PostgreSQL does not run as root.
if [ "$(id -u)" = 0 ]; then as_server() { su postgres -s /bin/sh -c "$1"; }; else as_server() { sh -c "$1"; }; fi
work=$(mktemp -d)
trap 'as_server "$programs/pg_ctl -D $work/data -m immediate stop" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
cp deploy/compose/roles.sh "$work"
chmod 755 "$work" "$work/roles.sh"
[ "$(id -u)" != 0 ] || chown postgres "$work"
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
as_server "$programs/initdb -D $work/data -U postgres --auth-local=trust --auth-host=scram-sha-256" >/dev/null
as_server "$programs/pg_ctl -D $work/data -o '-c listen_addresses=127.0.0.1 -c port=$port -k $work' -l $work/log -w start" >/dev/null
as_server "PGHOST=$work PGPORT=$port OWNER_PASSWORD=for-migrations SERVICE_PASSWORD=for-serving $work/roles.sh" >/dev/null

(umask 077
 echo "postgres://petstore_owner:for-migrations@127.0.0.1:$port/petstore" >"$work/owner-url"
 echo "postgres://petstore:for-serving@127.0.0.1:$port/petstore" >"$work/service-url")
if "$binary" migrate up --database-url-file "$work/service-url" >/dev/null 2>&1; then
  echo "error: the role of the service can migrate" >&2
  exit 1
fi
"$binary" migrate up --database-url-file "$work/owner-url" >/dev/null
"$binary" account create north --plan pro --database-url-file "$work/service-url" >/dev/null
echo "  the owner migrates, the service only reads and writes rows"
