//! Chance as an argument.

/// Where randomness comes from. The shell draws it and hands it to the core inside a command.
pub trait Entropy: Send + Sync + 'static {
    /// Sixteen bytes that nobody can guess.
    ///
    /// # Errors
    /// When the operating system cannot give any; nothing may then be issued.
    fn draw(&self) -> Result<[u8; 16], EntropyFailed>;
}

/// The operating system gave no randomness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct EntropyFailed(pub String);
