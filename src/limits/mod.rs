//! `cofferdam limits`: what limits there are, for those who are bound by them.

mod document;
mod openapi;

use std::process::ExitCode;

/// Show and publish limits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Openapi(openapi::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Openapi(args) => openapi::run(&args),
    }
}
