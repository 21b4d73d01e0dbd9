//! Whether a server holds the history that was acknowledged: the same server, as far as it was, or on a timeline that began
//! behind all of that.

use sqlx::PgConnection;
use tracing::info;

use crate::domain::breaker::Detector;

use super::super::witness::{Point, Record, Sighting};
use super::connect::{Server, Shared};
use super::fault::Fault;
use super::history;

/// A place in the history of one server: which timeline, and how far its log was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Seen {
    pub(super) timeline: i64,
    flushed: i64,
    system: i64,
}

impl Seen {
    pub(super) const fn new(system: i64, timeline: i64, flushed: i64) -> Self {
        Self { timeline, flushed, system }
    }

    /// The timeline, and the place in its log.
    pub(super) fn place(self) -> Result<(u64, u64), Fault> {
        Ok((history::place(self.timeline)?, history::place(self.flushed)?))
    }

    /// The server's own number; its first bit is no sign.
    pub(super) const fn system(self) -> u64 {
        self.system.cast_unsigned()
    }
}

/// What was known before a server was asked.
pub(super) struct Before {
    pub(super) seen: Seen,
    pub(super) era: u64,
    pub(super) reached: u64,
    /// What the witness said, which other replicas may have written.
    pub(super) record: Option<Record>,
}

impl Shared {
    /// What the witness says, read before a server is asked where it stands.
    pub(super) async fn witnessed(&self) -> Option<Record> {
        let course = self.guard.course.clone();
        if !course.is_watched() {
            return None;
        }
        tokio::task::spawn_blocking(move || course.record()).await.ok().flatten()
    }

    /// A replica that acknowledged more than this one may have gone down with the server: its blocks are in the witness that
    /// they share, and must be held against a new timeline before this one's take their place there. A transaction is open.
    pub(super) async fn behind_the_witness(
        &self,
        connection: &mut PgConnection,
        server: &Server,
        before: &Before,
    ) -> Result<Option<(Detector, String)>, Fault> {
        let Some(record) = &before.record else { return Ok(None) };
        let (timeline, at) = server.seen().place()?;
        if timeline < record.reached.timeline {
            // A primary that was left behind is refused below.
            return Ok(None);
        }
        let epoch = history::epoch(connection).await?;
        let mut began = None;
        if timeline > record.reached.timeline {
            let from = i64::try_from(record.reached.timeline).unwrap_or(i64::MAX);
            began = history::began(connection, from, server.seen().timeline, server.replayed).await?;
        }
        let (database, system) = (self.id, server.seen().system());
        let point = Point { epoch, timeline, at };
        Ok(record.stands_against(&Sighting { database, system, point, began }))
    }

    /// A server must be as far as it was acknowledged to be, or further; what its places belong to then.
    pub(super) fn go_on(&self, before: &Before, now: Seen, began: Option<u64>) -> Result<u64, Fault> {
        let course = &self.guard.course;
        let mut seen = self.seen();
        if now.system != seen.system {
            let told = format!("another server ({}) stands in the place of {}", now.system(), seen.system());
            return Err(self.fall_back(&mut seen, now, Detector::Identity, told));
        }
        if now.timeline < seen.timeline {
            // Not our database gone back, but one that was left behind: ours is elsewhere, and needs no breaker.
            return Err(Fault::Unusable(
                "an older database stands in its place, or a primary that was replaced; stop one of them"
                    .to_owned(),
            ));
        }
        let (timeline, flushed) = now.place()?;
        if now.timeline > seen.timeline {
            let (reached, began) = (course.reached().at, began.unwrap_or(flushed));
            if began < reached {
                let told = format!(
                    "timeline {timeline} began at place {began} of the log, and a commit behind {reached} was acknowledged \
                     on timeline {}",
                    seen.timeline
                );
                return Err(self.fall_back(&mut seen, now, Detector::Witness, told));
            }
            info!(from = seen.timeline, to = now.timeline, "another server has become the primary");
            *seen = now;
            course.go_on_upon(timeline);
            return Ok(course.era());
        }
        // Only what belongs together is compared: somebody else may have met the same server meanwhile.
        if course.era() == before.era && flushed < before.reached {
            let told = format!(
                "an older database stands in its place: its log ends at {flushed}, and a commit behind {} was acknowledged",
                before.reached
            );
            return Err(self.fall_back(&mut seen, now, Detector::Identity, told));
        }
        *seen = now.max(*seen);
        Ok(course.era())
    }

    /// The database has gone back to where it stands now. The alarm is raised before anybody can meet it there, and the next
    /// connection is the breaker's.
    pub(super) fn fall_back(&self, seen: &mut Seen, now: Seen, detector: Detector, told: String) -> Fault {
        self.guard.raise(detector, told.clone());
        self.guard.acks.clear();
        match now.place() {
            Ok((timeline, at)) => {
                self.guard.course.fall_back_to(timeline, at);
                *seen = now;
                Fault::Unusable(told)
            }
            Err(fault) => fault,
        }
    }
}
