//! `cofferdam limits`: what limits there are, for those who are bound by them, and what is changed of them.

mod document;
mod in_cells;
mod live;
mod openapi;
mod shown;

use std::process::ExitCode;

pub(crate) use in_cells::level_name;
pub(crate) use shown::lines;

/// Show, change and publish limits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(live::Show),
    Set(live::Set),
    Clear(live::Clear),
    Openapi(openapi::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Show(args) => live::show(&args),
        Command::Set(args) => live::set(&args),
        Command::Clear(args) => live::clear(&args),
        Command::Openapi(args) => openapi::run(&args),
    }
}
