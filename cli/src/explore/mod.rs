//! `ehi explore`: a page on the loopback address to search an index, look into it and teach it.
//!
//! A request passes `serve` (connections, sizes, times), `guard` (host, origin, key) and `routes` (which
//! call), and then becomes a call of the library, as in any other command. `held` is the index.

mod about;
mod document;
mod folders;
mod guard;
mod job;
mod judge;
mod keys;
mod leaves;
mod page;
mod question;
mod reply;
mod routes;
mod search;
mod serve;
mod site;
mod state;
mod why;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ehi::train::TrainConfig;

use crate::failure::Failure;
use crate::held::HeldIndex;
use crate::interrupt::Interrupts;
use crate::open;
use crate::opening::{PrecisionArgs, WaitArgs};
use crate::printing;
use crate::restart;
use site::Site;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Open the index for writing, so that hits can be judged and it can learn from that
    #[arg(long)]
    judge: bool,
    /// JSON file of settings of the training; absent ones take their default
    #[arg(long, value_name = "FILE", requires = "judge")]
    config: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// Port of 127.0.0.1; a free one if absent
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the address of the page and open no browser
    #[arg(long)]
    no_open: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.judge {
        restart::for_training();
    }
    let config = args.config.as_deref().map(TrainConfig::from_file).transpose()?.unwrap_or_default();
    let held = HeldIndex::open(&args.index, &args.precision, args.judge.then_some(&args.wait), false)?;
    let interrupts = Interrupts::watch();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(Failure::Listen)?;
    let port = listener.local_addr().map_err(Failure::Listen)?.port();
    let site = Arc::new(Site::new(held, config, port));
    let token = site.guard.keys.issue().map_err(Failure::Listen)?;
    // In the fragment, which browsers never send.
    let address = format!("http://127.0.0.1:{port}/#{token}");
    let index = printing::path(&args.index);
    eprintln!(
        "note: the page of {index} opens once in a browser at this address, until you press Ctrl-C here:"
    );
    writeln!(out, "{address}").and_then(|()| out.flush()).map_err(Failure::Output)?;
    if !args.no_open && !open::address(&address) {
        tracing::warn!("found no program that opens a browser; open the address that was printed");
    }
    let served = serve::run(listener, &site, &interrupts).map_err(Failure::Listen);
    site.job.end();
    served
}
