//! Samples of refusals go into a transaction of their own, behind the commands that came with them.

use super::super::changeset::ChangeSet;
use super::super::engine::{CommitOutcome, Engine, EngineError};
use super::super::refusals::Sample;
use super::{Driver, Job, Task, Unserved};
use crate::protocol::Wanted;

/// Takes the samples out of a batch.
pub(super) fn apart(batch: &mut Vec<Job>) -> Vec<Job> {
    let (notes, others) =
        std::mem::take(batch).into_iter().partition(|job| matches!(job.task, Task::Note(_)));
    *batch = others;
    notes
}

impl<E: Engine> Driver<E> {
    /// Writes samples down. Whatever goes wrong, nobody else hears of it and nothing is tried again.
    pub(super) async fn note(&mut self, notes: Vec<Job>) {
        for Job { task, reply, actor: _ } in notes {
            let Task::Note(samples) = task else { continue };
            let written = self.write_down(samples).await;
            let failed = |reason: String| Unserved::Unready(reason);
            drop(reply.send(written.map(|()| None).map_err(failed)));
        }
    }

    async fn write_down(&mut self, samples: Vec<Sample>) -> Result<(), String> {
        let loaded = self.engine.load(&Wanted::default()).await;
        let now = match loaded {
            Ok(loaded) => loaded.now,
            Err(error) => return Err(self.undone(error).await),
        };
        let dated = samples.into_iter().map(|Sample { mut row, age }| {
            row.at = now.less(age);
            row
        });
        let changes = ChangeSet { refusals: dated.collect(), ..ChangeSet::default() };
        if let Err(error) = self.engine.apply(&changes, now).await {
            return Err(self.undone(error).await);
        }
        match self.engine.commit().await {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Conflict(reason)
            | CommitOutcome::Unknown(reason)
            | CommitOutcome::Failed(reason) => Err(reason),
        }
    }

    async fn undone(&mut self, error: EngineError) -> String {
        self.engine.rollback().await;
        error.to_string()
    }
}
