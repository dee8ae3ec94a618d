//! `ehi mcp`: an index as a server of the Model Context Protocol, on standard input and output.

mod delete;
mod explain;
mod facets;
mod get;
mod insert;
mod judge;
mod limits;
mod resources;
mod schema;
mod search;
mod server;
mod stats;
mod tool;
mod transport;
mod work;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::runtime::Builder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::held::HeldIndex;
use crate::interrupt::Interrupts;
use crate::opening::{PrecisionArgs, WaitArgs};
use limits::ABOUT;
use server::Server;
use transport::Stdio;

/// How often the server checks for a signal.
const POLL: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Offer the tools that change the index too: insert, delete and judge. No other process can write to it
    /// meanwhile
    #[arg(long)]
    write: bool,
    /// What the documents are about, in at most 500 characters: the model reads it to decide what to search
    /// for here
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.wait.is_asked() && !args.write {
        return Err(Failure::Usage("`--wait` is for `--write`: a reader never waits".to_owned()));
    }
    let about = args.about.as_deref().map_or(0, |about| about.chars().count());
    if about > ABOUT {
        return Err(Failure::Usage(format!(
            "--about has {about} characters: give {ABOUT} at most, since some clients refuse longer descriptions"
        )));
    }
    let interrupts = Interrupts::watch();
    let held =
        Arc::new(HeldIndex::open(&args.index, &args.precision, args.write.then_some(&args.wait), true)?);
    if io::stdin().is_terminal() {
        eprintln!(
            "note: this speaks the Model Context Protocol on standard input and output; an agent or editor starts it, \
             see docs/agents.md"
        );
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(format!("cannot start to serve: {error}")))?;
    let served = runtime.block_on(serve(&held, args.about.as_deref(), interrupts));
    // Does not wait for a blocked read or write.
    runtime.shutdown_background();
    let flushed = held.finish();
    served.and(flushed)
}

/// Serves until the client or a signal ends the session; no call runs afterwards.
async fn serve(held: &Arc<HeldIndex>, about: Option<&str>, interrupts: Interrupts) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        while interrupts.signal().is_none() {
            sleep(POLL).await;
        }
        stopping.cancel();
    });
    let server = Server::new(Arc::clone(held), about);
    let work = server.work();
    let served = match server.serve_with_ct(Stdio::open(stop.clone()), stop).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
        // No client came, or a signal ended the session first.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            Err(failed(&"the client did not begin with a request"))
        }
        Err(error) => Err(failed(&error)),
    };
    work.ended().await;
    served
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::Usage(format!("the protocol's exchange failed: {why}"))
}
