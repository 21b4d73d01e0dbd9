//! The database went back in time: backups, what a restore leaves behind, and the way out of it.

mod backups;
mod contradicting;
mod regressed;
mod workers;
