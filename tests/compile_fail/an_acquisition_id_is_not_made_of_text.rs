//! An acquisition id is parsed or issued, never put together.

use fencegate::domain::lease::AcquisitionId;

fn main() {
    let _ = AcquisitionId("82AAAAAAAAAAAAAAAAAAAAAA".to_owned());
}
