#!/bin/sh
# Runs once, when PostgreSQL creates its data folder. Creates the database with two roles: the owner migrates the schema,
# and the service reads and writes rows.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<'SQL'
\getenv owner_password OWNER_PASSWORD
\getenv service_password SERVICE_PASSWORD
CREATE ROLE petstore_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE petstore LOGIN PASSWORD :'service_password';
CREATE DATABASE petstore OWNER petstore_owner ENCODING 'UTF8' TEMPLATE template0;
\connect petstore
ALTER DEFAULT PRIVILEGES FOR ROLE petstore_owner IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO petstore;
SQL
