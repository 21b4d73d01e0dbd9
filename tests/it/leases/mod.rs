//! Leases over real HTTP and real processes: each file is one rule, each test a story told on the embedded database, on
//! PostgreSQL, and where replicas matter on three gateways over one PostgreSQL.

mod clocks;
mod crowd;
mod events;
mod fifo;
mod gone_clients;
mod hand_over;
mod raw;
mod repeats;
pub(crate) mod scene;
mod several;
mod sweeper;
mod waiting;
mod wake_ups;
