//! What operators see and do: what is told to those who listen, what is written down, and the life of a process.

mod audit;
mod events;
mod following;
mod life;
mod listener;
mod managed;
