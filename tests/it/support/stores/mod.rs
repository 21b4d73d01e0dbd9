//! Real stores to stand behind the gateway, started by the tests themselves and ended with them: nginx with `WebDAV`,
//! an S3 of moto, and the two receivers of `examples/receiver`. Nothing here ever speaks to a server that happens to be
//! there.

pub(crate) mod etcd_adapter;
pub(crate) mod missing;
pub(crate) mod moto;
pub(crate) mod nginx;
pub(crate) mod python;
pub(crate) mod receiver;
