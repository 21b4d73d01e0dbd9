//! Bodies that wait on disk.

use bytes::Bytes;
use fencegate::backing::Order as Ordered;
use fencegate::backing::spool::{SpoolError, SpoolWriter};
use fencegate::domain::document::BodyDigest;
use fencegate::domain::upstream::{Bulk, Payload};
use fencegate::limits;

use super::{answered, order, pair};
use crate::support::upstream::Kind;

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

async fn spooled(dir: &std::path::Path, body: &[u8], limit: u64) -> Result<Payload, SpoolError> {
    let mut writer = SpoolWriter::new(dir, limit);
    for piece in body.chunks(100_003) {
        writer.push(Bytes::copy_from_slice(piece)).await?;
    }
    writer.finish().await
}

#[tokio::test]
async fn a_small_body_stays_in_memory_and_a_large_one_leaves_no_name_behind() {
    let dir = tempfile::tempdir().unwrap();
    let edge = usize::try_from(limits::SPOOL_BYTES).unwrap();
    for (length, in_memory) in [(0, true), (5, true), (edge, true), (edge + 1, false), (3 * edge + 7, false)]
    {
        let body = noise(length);
        let payload = spooled(dir.path(), &body, u64::MAX).await.unwrap();
        assert_eq!(payload.length, u64::try_from(length).unwrap());
        assert_eq!(payload.digest, BodyDigest::of(&body));
        match &payload.bulk {
            Bulk::Memory(bytes) => {
                assert!(in_memory, "{length}");
                assert_eq!(bytes, &body);
            }
            Bulk::Disk(file) => {
                assert!(!in_memory, "{length}");
                assert_eq!(file.read_at(0, length + 10).unwrap(), body);
                assert_eq!(file.read_at(7, 3).unwrap(), body[7..10]);
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left in the directory");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    spooled(dir.path(), &noise(500_000), 500_000).await.unwrap();
    let refused = spooled(dir.path(), &noise(500_001), 500_000).await;
    assert!(matches!(refused, Err(SpoolError::TooLarge { limit: 500_000 })), "{refused:?}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    assert!(matches!(spooled(&gone, &noise(2_000_000), u64::MAX).await, Err(SpoolError::Disk(_))));
}

#[tokio::test]
async fn a_body_on_disk_arrives_byte_for_byte_and_can_be_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let body = noise(5_000_001);
    let payload = spooled(dir.path(), &body, u64::MAX).await.unwrap();
    let (scripted, upstream) = pair(Kind::Serial);
    let order = Ordered { payload, ..order("n/r", 1, "op", "") };
    for _ in 0..2 {
        answered(upstream.send(&order).await);
    }
    let digests: Vec<String> = scripted.log().into_iter().map(|arrival| arrival.digest).collect();
    assert_eq!(digests[0], format!("{:?}", BodyDigest::of(&body)).trim_start_matches("sha256:"));
    assert_eq!(digests[0], digests[1]);
    assert_eq!(scripted.log()[0].header("content-length"), Some("5000001"));
}
