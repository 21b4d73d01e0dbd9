//! Waiting for other processes: by asking again, with an end.

use std::future::Future;
use std::time::Duration;

/// Between two looks.
const STEP: Duration = Duration::from_millis(10);

/// Asks until something is there, for some seconds at most.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    seconds: u64,
    mut ask: impl FnMut() -> F,
) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(STEP).await;
        }
    };
    let Ok(found) = tokio::time::timeout(Duration::from_secs(seconds), asking).await else {
        panic!("{what}: not within {seconds} s")
    };
    found
}

/// The same for code that has no runtime.
pub(crate) fn blocking<T>(what: &str, seconds: u64, ask: impl FnMut() -> Option<T>) -> T {
    within(seconds, ask).unwrap_or_else(|| panic!("{what}: not within {seconds} s"))
}

/// None when it is not there in time.
pub(crate) fn within<T>(seconds: u64, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..seconds * 100 {
        if let Some(found) = ask() {
            return Some(found);
        }
        std::thread::sleep(STEP);
    }
    None
}
