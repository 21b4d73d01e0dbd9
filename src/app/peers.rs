//! Connections by the address that they come from, so that no single one takes them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of each address that has any.
type Open = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// How many connections one address may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PerAddress {
    /// At once.
    pub(super) most: usize,
    /// Whether this machine itself is bounded too: only where somebody said so, since everything local is one address.
    pub(super) with_loopback: bool,
}

/// Who is connected. It has an entry for each connection at most, and those are bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers {
    open: Open,
}

/// A connection that counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    /// None: it is not counted.
    counted: Option<(IpAddr, Open)>,
}

impl Peers {
    /// Counts one more connection. None: its address has as many as it may have by now.
    pub(super) fn admit(&self, address: IpAddr, bound: PerAddress) -> Option<Guest> {
        let address = address.to_canonical();
        if address.is_loopback() && !bound.with_loopback {
            return Some(Guest { counted: None });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= bound.most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Guest { counted: Some((address, self.open.clone())) })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some((address, open)) = &self.counted else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_does_not_take_what_another_may_have() {
        let peers = Peers::default();
        let admit = |text: &str, most| peers.admit(address(text), PerAddress { most, with_loopback: false });
        let first = admit("192.0.2.1", 2).unwrap();
        let _second = admit("::ffff:192.0.2.1", 2).unwrap();
        assert!(admit("192.0.2.1", 2).is_none());
        assert!(admit("192.0.2.2", 2).is_some());
        // A bound that is lifted holds for the next one.
        assert!(admit("192.0.2.1", 3).is_some());
        drop(first);
        assert!(admit("192.0.2.1", 2).is_some());
        assert_eq!(peers.open.lock().unwrap().len(), 1);
    }

    #[test]
    fn this_machine_is_bounded_where_somebody_says_so() {
        let local = |with_loopback| {
            let (peers, bound) = (Peers::default(), PerAddress { most: 1, with_loopback });
            let _one = peers.admit(address("::1"), bound);
            peers.admit(address("::1"), bound).is_some()
        };
        assert!(local(false) && !local(true));
    }
}
