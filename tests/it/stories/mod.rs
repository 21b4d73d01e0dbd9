//! One file per failure of the problem, over real HTTP against a whole gateway.

mod called_off;
mod changed_payload;
mod delayed_request;
mod deletion_and_recreation;
mod equal_token;
pub(crate) mod hang_ups;
mod killed_gateway;
mod late_renewal;
mod lost_answer;
mod paused_worker;
mod recovery;
mod restart;
mod told;
