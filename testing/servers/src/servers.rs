//! Real servers: Redis, Redis Cluster, PostgreSQL, PgBouncer and HAProxy, each in its own folder, on
//! loopback, and killed with the test.
//!
//! A server belongs to the test that started it, which may pause, kill and restart it (`&mut self`). Methods
//! that only read (`&self`) may be shared: [`PostgresServer::shared`] serves every test of the process, each
//! in its own database.
//!
//! A server never outlives its test process, however that ends. A shell holds the read end of a pipe whose
//! write end only this process has; when the pipe closes, it ends the server and removes the folder
//! (`supervised`).
//!
//! A missing program fails the test and names the Debian package; `scripts/install-test-servers` installs
//! all.

mod database;
mod debian;
mod haproxy;
mod pgbouncer;
mod postgres;
mod process_tree;
mod program;
mod redis;
mod redis_cluster;
mod supervised;
mod template;

pub use self::{
    database::Database,
    haproxy::HaproxyServer,
    pgbouncer::PgBouncerServer,
    postgres::{PostgresOptions, PostgresServer},
    redis::{RedisOptions, RedisServer},
    redis_cluster::RedisCluster,
    template::database_with_schema,
};
