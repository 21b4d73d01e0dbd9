//! The embedded engine, from outside: files, restarts, batches, reads and faults.

mod batches;
mod faults;
mod fencing;
mod keeping;
mod opening;
mod place;
mod reading;
mod restored;
mod twins;
mod upgrade;
mod witness;
