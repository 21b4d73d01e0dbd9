//! Leases over real HTTP and real processes: each file is one rule, each test a story told on the embedded database, on
//! PostgreSQL, and where replicas matter on three gateways over one PostgreSQL.

mod fifo;
mod gone_clients;
mod raw;
mod repeats;
mod scene;
mod waiting;
mod wake_ups;
