//! `fencegate serve`.

use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::failure::Failure;
use super::{block_on_all_cores, settings};
use crate::app;
use crate::config::Flags;
use crate::telemetry;

/// What `serve` takes.
#[derive(Args)]
pub(super) struct Serve {
    /// Loopback address and port to listen on
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// File of the database, or memory to forget everything at the end
    #[arg(long, value_name = "sqlite://PATH|memory")]
    database: Option<String>,
    /// File with the seal keys; made for a new database
    #[arg(long, value_name = "FILE")]
    seal_key_file: Option<String>,
}

impl Serve {
    pub(super) fn run(self, config: Option<&Path>) -> Result<(), Failure> {
        let Self { listen, database, seal_key_file } = self;
        let flags = Flags { listen, database, seal_key_file };
        let settings = settings::load(config, &flags)?;
        let (logs, levels) = telemetry::install(&settings.config.log).map_err(Failure::Start)?;
        // A file that was there at the start must be there: without it the configuration would be an empty one.
        let named = config.map(Path::to_owned).or(settings.file);
        let reread: app::Reread = Arc::new(move || {
            let again = settings::load(named.as_deref(), &flags);
            again.map(|settings| settings.config).map_err(|failure| failure.told())
        });
        let served = block_on_all_cores(app::serve(settings.config, levels, reread));
        // The last lines are written before the process ends.
        drop(logs);
        served
    }
}
