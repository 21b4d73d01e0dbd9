//! Bodies that wait to be forwarded. A small one stays in memory; a larger one goes to a file without a name, which is gone
//! with the process whatever becomes of it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use crate::domain::document::BodyDigest;
use crate::domain::upstream::{Bulk, Payload, Spooled};
use crate::limits;

/// A body on disk.
#[derive(Debug)]
pub struct Spool {
    file: File,
}

impl Spooled for Spool {
    fn read_at(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(length);
        let mut filled = 0;
        while filled < length {
            let at = offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
            let Some(free) = bytes.get_mut(filled..) else { break };
            match self.file.read_at(free, at) {
                Ok(0) => break,
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes.freeze())
    }
}

/// Why a body cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// More bytes than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The most that is allowed, in bytes.
        limit: u64,
    },
    /// The disk refused.
    #[error("the body cannot be kept on disk: {0}")]
    Disk(#[from] io::Error),
}

/// Takes a body piece by piece, measures and hashes it.
#[derive(Debug)]
pub struct SpoolWriter {
    dir: PathBuf,
    limit: u64,
    length: u64,
    hash: Sha256,
    waiting: Vec<Bytes>,
    waiting_bytes: u64,
    file: Option<File>,
}

impl SpoolWriter {
    /// For a body of at most `limit` bytes, in a file below `dir` where it is larger than [`limits::SPOOL_BYTES`].
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, limit: u64) -> Self {
        Self {
            dir: dir.into(),
            limit,
            length: 0,
            hash: Sha256::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            file: None,
        }
    }

    /// Takes the next piece. It waits for the disk, so a fast sender is held back.
    ///
    /// # Errors
    /// [`SpoolError::TooLarge`] beyond the limit, before anything of the piece is kept; [`SpoolError::Disk`].
    pub async fn push(&mut self, piece: Bytes) -> Result<(), SpoolError> {
        let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let length = self.length.saturating_add(bytes);
        if length > self.limit {
            return Err(SpoolError::TooLarge { limit: self.limit });
        }
        self.hash.update(&piece);
        self.length = length;
        self.waiting_bytes = self.waiting_bytes.saturating_add(bytes);
        self.waiting.push(piece);
        let most = match self.file {
            None => limits::SPOOL_BYTES,
            Some(_) => u64::try_from(limits::SPOOL_PIECE_BYTES).unwrap_or(u64::MAX),
        };
        if self.waiting_bytes > most { self.write_down().await } else { Ok(()) }
    }

    /// The body as a whole.
    ///
    /// # Errors
    /// [`SpoolError::Disk`].
    pub async fn finish(mut self) -> Result<Payload, SpoolError> {
        if self.file.is_some() {
            self.write_down().await?;
        }
        let digest = BodyDigest::from_bytes(self.hash.finalize().into());
        let bulk = match self.file {
            Some(file) => Bulk::Disk(Arc::new(Spool { file })),
            None => Bulk::Memory(joined(self.waiting)),
        };
        Ok(Payload { bulk, length: self.length, digest })
    }

    /// The file is lent to a thread that may block. When its call fails the body is lost, and so is the request.
    async fn write_down(&mut self) -> Result<(), SpoolError> {
        let (file, dir) = (self.file.take(), self.dir.clone());
        let pieces = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let writing = move || {
            let mut file = match file {
                Some(file) => file,
                None => tempfile::tempfile_in(dir)?,
            };
            pieces.iter().try_for_each(|piece| file.write_all(piece))?;
            Ok::<File, io::Error>(file)
        };
        let written = tokio::task::spawn_blocking(writing).await.map_err(io::Error::other)?;
        self.file = Some(written?);
        Ok(())
    }
}

/// One piece is passed on as it is.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.pop().unwrap_or_default();
    }
    let all = pieces.iter().map(Bytes::len).fold(0_usize, usize::saturating_add);
    let mut joined = BytesMut::with_capacity(all);
    for piece in &pieces {
        joined.extend_from_slice(piece);
    }
    joined.freeze()
}
