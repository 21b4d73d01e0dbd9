//! Doors for the harnesses of `tests/it/fuzz`: what they hold against rules of their own and nobody else needs. They are there
//! with the feature `fuzzing` alone, which only tests switch on.

use hyper::HeaderMap;

use super::{address, headers};
use crate::domain::resource::{Address, ResourceName};
use crate::domain::store::HttpStore;
use crate::domain::upstream::Field;

/// Where a write below a base goes.
#[must_use]
pub fn path_of(prefix: &str, address: &Address) -> String {
    address::path_of(prefix, address)
}

/// Where the content object of a pointer cell lies.
#[must_use]
pub fn path_of_content(prefix: &str, resource: &ResourceName, object: &str) -> String {
    address::path_of_content(prefix, resource, object)
}

/// Whether a name is kept for content objects.
#[must_use]
pub fn is_of_content(resource: &ResourceName) -> bool {
    address::is_of_content(resource)
}

/// What of a caller's headers goes to a store.
///
/// # Errors
/// When one of them cannot stand in a request.
pub fn forwarded(fields: &[Field], store: &HttpStore) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers::forward(fields, store, &mut headers).map(|()| headers)
}
