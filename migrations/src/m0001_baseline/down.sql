-- Each table before those that it refers to, with its indexes and triggers.
DROP TABLE operator_sessions;
DROP TABLE audit_events;
DROP TABLE operators;
DROP TABLE refusal_counts;
DROP TABLE refusals;
DROP TABLE usage_minutes;
DROP TABLE usage_reporters;
DROP TABLE usage_days;
DROP TABLE bans;
DROP TABLE installation;
DROP TABLE revision;
DROP TABLE api_keys;
DROP TABLE accounts;
DROP TABLE imports;
DROP TABLE create_requests;
DROP TABLE orders;
DROP TABLE pets;
