//! Completions for shells, and the man page.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::error::CliError;
use crate::{Outcome, output};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<Outcome, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "maskwright", &mut text);
    output::print_bytes(&text)?;
    Ok(Outcome::Done)
}

/// One page: the command itself, and each of its commands after it.
pub(crate) fn man() -> Result<Outcome, CliError> {
    let mut root = Cli::command();
    root.build();
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(root.clone());
    page.render(&mut text).map_err(CliError::Stdout)?;
    for command in root.get_subcommands() {
        let page = clap_mangen::Man::new(command.clone());
        text.extend_from_slice(format!(".SH {}\n", command.get_name().to_uppercase()).as_bytes());
        page.render_synopsis_section(&mut text)
            .map_err(CliError::Stdout)?;
        page.render_description_section(&mut text)
            .map_err(CliError::Stdout)?;
        page.render_options_section(&mut text)
            .map_err(CliError::Stdout)?;
    }
    output::print_bytes(&text)?;
    Ok(Outcome::Done)
}
