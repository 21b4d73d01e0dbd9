//! The parts that write namespaces, and what holds for those that were never used: all copies of a row change together.

use super::super::super::changeset::ChangeSet;
use super::super::super::rows;
use super::super::tuples::Shape;
use super::parts::{Expects, Part};
use super::{Work, split};

const NAMESPACES_INSERT: Part = Part {
    table: "namespaces",
    shape: Shape::NewNamespace,
    text: "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, base_incarnation, definition, \
           version, breaker) SELECT b.bucket::smallint, v.namespace, v.epoch, v.base_epoch, v.base_token, \
           v.base_incarnation, v.definition, v.version, v.breaker \
           FROM unnest({}) AS v CROSS JOIN generate_series(0, 255) AS b (bucket) \
           ORDER BY b.bucket, v.namespace COLLATE \"C\" ON CONFLICT DO NOTHING RETURNING 1",
    expects: Expects::EachCopyUnlessOvertaken,
};

const NAMESPACES_UPDATE: Part = Part {
    table: "namespaces",
    shape: Shape::ChangedNamespace,
    text: "UPDATE namespaces AS n SET epoch = v.epoch, base_epoch = v.base_epoch, base_token = v.base_token, \
           base_incarnation = v.base_incarnation, definition = v.definition, version = v.version, \
           breaker = v.breaker FROM unnest({}) AS v WHERE n.namespace = v.namespace AND n.epoch = v.seen_epoch \
           AND n.base_epoch = v.seen_base_epoch AND n.base_token = v.seen_base_token \
           AND n.base_incarnation = v.seen_base_incarnation AND n.version = v.seen_version \
           AND n.breaker IS NOT DISTINCT FROM v.seen_breaker RETURNING 1",
    expects: Expects::EachCopy,
};

const EVERYWHERE_UPDATE: Part = Part {
    table: "everywhere",
    shape: Shape::ChangedEverywhere,
    text: "UPDATE everywhere AS e SET epoch = v.epoch, breaker = v.breaker FROM unnest({}) AS v \
           WHERE e.epoch = v.seen_epoch AND e.breaker IS NOT DISTINCT FROM v.seen_breaker RETURNING 1",
    expects: Expects::EachCopy,
};

#[cfg(test)]
pub(super) const PARTS: [Part; 3] = [NAMESPACES_INSERT, NAMESPACES_UPDATE, EVERYWHERE_UPDATE];

impl Work {
    pub(super) fn namespaces(&mut self, changes: &ChangeSet) {
        let (new, known) = split(changes.namespaces.values());
        self.add(&NAMESPACES_INSERT, new, rows::write_namespace);
        self.add(&NAMESPACES_UPDATE, known, rows::write_namespace_change);
        let (_, known) = split(changes.everywhere.iter());
        self.add(&EVERYWHERE_UPDATE, known, rows::write_everywhere_change);
    }
}
