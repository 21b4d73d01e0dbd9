//! A snapshot of only what a command wants, as an engine loads it.

use fencegate::domain::resource::Namespace;
use fencegate::domain::subject::Subject;
use fencegate::protocol::incarnation::{addressed, begun};
use fencegate::protocol::rows::EraRow;
use fencegate::protocol::{Snapshot, Wanted};

/// The wanted rows of `all`, with the namespace and the newest lease of each resource, and the resources of each lease.
pub(crate) fn only(all: &Snapshot, wanted: &Wanted) -> Snapshot {
    let mut some = Snapshot::default();
    let mut resources = wanted.resources.clone();
    for lease in all.leases() {
        let bucket = lease.resource.bucket();
        let named = wanted.leases.contains(&(bucket, *lease.acquisition.as_bytes()));
        if named || wanted.requests.contains(&(bucket, lease.request_key)) {
            resources.extend(lease.members().map(|(resource, _)| resource.clone()));
            some.insert_lease(lease.clone());
        }
    }
    let mut namespaces = wanted.namespaces.clone();
    namespaces.extend(resources.iter().map(fencegate::domain::resource::ResourceName::namespace));
    namespaces
        .iter()
        .filter_map(|name| all.namespace(name))
        .for_each(|row| some.insert_namespace(row.clone()));
    for row in resources.iter().filter_map(|name| all.resource(name)) {
        some.insert_resource(row.clone());
        if let Some(lease) = row.lease.and_then(|newest| all.lease(&newest.acquisition)) {
            some.insert_lease(lease.clone());
        }
        all.intents_of(&row.resource).for_each(|intent| some.insert_intent(intent.clone()));
        for (born, incarnation) in all.eras(&row.resource) {
            some.insert_era(EraRow { resource: row.resource.clone(), incarnation, born });
        }
    }
    some.set_everywhere(all.everywhere().clone());
    for subject in &wanted.whole {
        let within = |name: &Namespace| *subject == Subject::Everywhere || name.as_str() == subject.as_str();
        let rows = all.namespaces().filter(|row| within(&row.namespace));
        rows.for_each(|row| some.insert_namespace(row.clone()));
        let used = all.resources().map(|row| row.resource.namespace()).filter(within);
        used.for_each(|name| some.set_populated(name));
        let open = all.intents().filter(|intent| within(&intent.record.resource.namespace()));
        open.for_each(|intent| some.insert_intent(intent.clone()));
    }
    for address in &wanted.targets {
        if let Some(row) = all.target(address) {
            some.insert_target(address.resource.clone(), row.clone());
        }
    }
    for resource in &wanted.recorded {
        if let Some(record) = all.operations().find(|record| record.resource == *resource) {
            some.insert_operation(record.clone());
        }
    }
    for record in wanted.controls.iter().filter_map(|key| all.control(key)) {
        some.insert_control(record.clone());
    }
    for one in &wanted.operations {
        let Some(row) = all.resource(&one.resource) else { continue };
        let era = |position| all.era_at(&one.resource, position);
        let named = addressed(row, one.position, one.incarnation, era);
        for incarnation in named.into_iter().chain(begun(row, one.incarnation)) {
            let key = (one.resource.clone(), incarnation, one.operation_id.clone());
            all.operation(&key).into_iter().for_each(|record| some.insert_operation(record.clone()));
        }
    }
    some
}
