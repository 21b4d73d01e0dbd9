//! How often a principal may ask, and how often strangers may fail: cells of GCRA, which hold one number each.
//!
//! Renewals, releases and what operators do have cells of their own: whoever uses its allowance up with writes loses
//! neither its lease nor the means to stop them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::clock::Clock as GovernorClock;
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::domain::principal::PrincipalName;
use crate::domain::time::Clock;
use crate::limits::{PACED_PRINCIPALS, STRANGER_BURST, STRANGER_RATE, STRANGERS};

/// How often somebody may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once, after a rest.
    pub burst: NonZeroU32,
}

impl Rate {
    const fn quota(self) -> Quota {
        Quota::per_second(self.per_second).allow_burst(self.burst)
    }

    /// How long a rest is after which the whole burst is there again, in whole seconds and at least one.
    #[must_use]
    pub fn window(self) -> u32 {
        self.burst.get().div_ceil(self.per_second.get()).max(1)
    }
}

/// Which allowance a call takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// What everybody asks for.
    Ordinary,
    /// What keeps a lease, gives it back, or is an operator's: it must go through when nothing else does.
    Reserved,
}

/// What a call has left behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The rate in force.
    pub rate: Rate,
    /// Calls that may follow at once.
    pub left: u32,
}

/// The allowance is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The rate in force.
    pub rate: Rate,
    /// After so long a call is let through, unless another one comes first.
    pub wait: Duration,
}

/// The process's clock, as the cells ask it.
#[derive(Clone)]
struct Ticks(Arc<dyn Clock>);

impl GovernorClock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

type Cell = RateLimiter<NotKeyed, InMemoryState, Ticks, StateInformationMiddleware>;

struct Cells {
    rate: Rate,
    ordinary: Cell,
    reserved: Cell,
    /// When it was last asked; after a window it is as good as new.
    asked: Duration,
}

/// The cells of everybody.
pub struct Paces {
    /// For those who have no rate of their own.
    general: ArcSwap<Option<Rate>>,
    ticks: Ticks,
    principals: Table<PrincipalName>,
    strangers: Table<IpAddr>,
}

impl std::fmt::Debug for Paces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Paces").field("general", &**self.general.load()).finish_non_exhaustive()
    }
}

impl Paces {
    /// With a rate for those who have none of their own, where there is one.
    #[must_use]
    pub fn new(general: Option<Rate>, clock: Arc<dyn Clock>) -> Self {
        let (principals, strangers) = (Table::of(PACED_PRINCIPALS), Table::of(STRANGERS));
        Self { general: ArcSwap::from_pointee(general), ticks: Ticks(clock), principals, strangers }
    }

    /// Bounds those who have none of their own so from now on.
    pub fn replace(&self, general: Option<Rate>) {
        self.general.store(Arc::new(general));
    }

    /// Takes a call from the allowance of a principal. None: it has no bound.
    ///
    /// # Errors
    /// [`Spent`] says how long to wait.
    pub fn take(
        &self,
        name: &PrincipalName,
        own: Option<Rate>,
        share: Share,
    ) -> Result<Option<Passed>, Spent> {
        let Some(rate) = own.or(**self.general.load()) else { return Ok(None) };
        self.principals.take(name, rate, share, &self.ticks).map(Some)
    }

    /// Notes that a stranger has shown nothing that is known here.
    ///
    /// # Errors
    /// [`Spent`]: its address has failed too often.
    pub fn failed(&self, peer: IpAddr) -> Result<(), Spent> {
        let rate = Rate { per_second: STRANGER_RATE, burst: STRANGER_BURST };
        self.strangers.take(&network(peer), rate, Share::Ordinary, &self.ticks).map(drop)
    }
}

/// An address as it is counted: whoever has one address of IPv6 has a whole network of 64 bits.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
    }
}

/// Cells by key, so many at most. Those who find no place share one set of cells: nobody is unbounded, and nobody can
/// make the table grow.
struct Table<K> {
    most: usize,
    cells: Mutex<(HashMap<K, Cells>, Option<Cells>)>,
}

impl<K: Clone + Eq + std::hash::Hash> Table<K> {
    fn of(most: usize) -> Self {
        Self { most, cells: Mutex::default() }
    }

    fn take(&self, key: &K, rate: Rate, share: Share, ticks: &Ticks) -> Result<Passed, Spent> {
        let now = ticks.now();
        let mut held = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let (cells, others) = &mut *held;
        if cells.get(key).is_some_and(|found| found.rate != rate) {
            cells.remove(key);
        }
        if !cells.contains_key(key) {
            if cells.len() >= self.most {
                cells.retain(|_, one| !one.is_rested(now));
            }
            if cells.len() < self.most {
                cells.insert(key.clone(), Cells::new(rate, ticks));
            }
        }
        match cells.get_mut(key) {
            Some(own) => own.take(share, now),
            None => others.get_or_insert_with(|| Cells::new(rate, ticks)).take(share, now),
        }
    }
}

impl Cells {
    fn new(rate: Rate, ticks: &Ticks) -> Self {
        let cell = || {
            RateLimiter::direct_with_clock(rate.quota(), ticks.clone())
                .with_middleware::<StateInformationMiddleware>()
        };
        Self { rate, ordinary: cell(), reserved: cell(), asked: ticks.now() }
    }

    fn is_rested(&self, now: Duration) -> bool {
        now.saturating_sub(self.asked) > Duration::from_secs(u64::from(self.rate.window()))
    }

    fn take(&mut self, share: Share, now: Duration) -> Result<Passed, Spent> {
        self.asked = now;
        let (rate, cell) = match share {
            Share::Ordinary => (self.rate, &self.ordinary),
            Share::Reserved => (self.rate, &self.reserved),
        };
        match cell.check() {
            Ok(state) => Ok(Passed { rate, left: state.remaining_burst_capacity() }),
            Err(not_until) => Err(Spent { rate, wait: not_until.wait_time_from(now) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::domain::time::Timestamp;

    #[derive(Default)]
    struct ByHand(AtomicU64);

    impl Clock for ByHand {
        fn wall(&self) -> Timestamp {
            Timestamp::default()
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: NonZeroU32::new(per_second).unwrap(), burst: NonZeroU32::new(burst).unwrap() }
    }

    fn name(text: &str) -> PrincipalName {
        PrincipalName::parse(text).unwrap()
    }

    #[test]
    fn after_the_time_that_is_told_one_call_goes_through_and_not_before() {
        let clock = Arc::new(ByHand::default());
        let paces = Paces::new(Some(rate(10, 3)), clock.clone());
        let take = || paces.take(&name("a"), None, Share::Ordinary);
        let left: Vec<u32> = (0..3).map(|_| take().unwrap().unwrap().left).collect();
        assert_eq!(left, [2, 1, 0]);
        assert_eq!(take().unwrap_err().wait, Duration::from_millis(100));
        clock.0.store(99, Ordering::SeqCst);
        assert_eq!(take().unwrap_err().wait, Duration::from_millis(1));
        clock.0.store(100, Ordering::SeqCst);
        assert!(take().is_ok() && take().is_err());
    }

    #[test]
    fn a_principal_takes_nothing_from_another_and_nothing_from_its_own_reserve() {
        let paces = Paces::new(Some(rate(1, 1)), Arc::new(ByHand::default()));
        let take = |who: &str, share| paces.take(&name(who), None, share).is_ok();
        assert!(take("a", Share::Ordinary) && !take("a", Share::Ordinary));
        assert!(take("b", Share::Ordinary));
        assert!(take("a", Share::Reserved) && !take("a", Share::Reserved));
    }

    #[test]
    fn a_rate_of_ones_own_counts_and_without_any_nothing_is_bounded() {
        let clock = Arc::new(ByHand::default());
        let paces = Paces::new(None, clock.clone());
        assert_eq!(paces.take(&name("a"), None, Share::Ordinary), Ok(None));
        let own = Some(rate(1, 2));
        let passed: Vec<bool> =
            (0..3).map(|_| paces.take(&name("a"), own, Share::Ordinary).is_ok()).collect();
        assert_eq!(passed, [true, true, false]);
    }

    // Broken: a rate that was lowered by a reload holds for strangers alone, or one that was taken away holds on. Must hold: from
    // then on the new one counts, for whoever has none of its own.
    #[test]
    fn another_rate_counts_from_the_reload_on() {
        let paces = Paces::new(Some(rate(1, 3)), Arc::new(ByHand::default()));
        let passed = |own| (0..5).filter(|_| paces.take(&name("a"), own, Share::Ordinary).is_ok()).count();
        assert_eq!(passed(None), 3);
        paces.replace(Some(rate(1, 2)));
        assert_eq!((passed(None), passed(Some(rate(1, 4)))), (2, 4));
        paces.replace(None);
        assert_eq!(passed(None), 5);
    }

    #[test]
    fn a_full_table_grows_no_further_and_lets_nobody_through_unbounded() {
        let (clock, table) = (Arc::new(ByHand::default()), Table::of(2));
        let ticks = Ticks(clock.clone());
        let take = |key: u32| table.take(&key, rate(1, 1), Share::Ordinary, &ticks).is_ok();
        assert!(take(1) && take(2) && take(3));
        // The third and the fourth share what is left.
        assert!(!take(4) && !take(3));
        assert_eq!(table.cells.lock().unwrap().0.len(), 2);
        clock.0.store(1_001, Ordering::SeqCst);
        assert!(take(5) && take(6));
        assert_eq!(table.cells.lock().unwrap().0.len(), 2);
    }

    #[test]
    fn a_network_of_ipv6_is_one_stranger() {
        let paces = Paces::new(None, Arc::new(ByHand::default()));
        let from = |text: &str| paces.failed(text.parse().unwrap()).is_ok();
        assert!((0..STRANGER_BURST.get()).all(|host| from(&format!("2001:db8::{host:x}"))));
        assert!(!from("2001:db8::ffff:1") && from("2001:db8:0:1::1") && from("192.0.2.1"));
        // The same address in the other spelling.
        assert!((1..STRANGER_BURST.get()).all(|_| from("::ffff:192.0.2.1")));
        assert!(!from("192.0.2.1"));
    }
}
