//! How the process ends: the statuses that `flashc --help` lists.

use std::process::ExitCode;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All is well.
    Ok = 0,
    /// The program is wrong.
    Program = 1,
    /// The command line is wrong, or a file cannot be read or written.
    Usage = 2,
    /// Loading or launching failed.
    Launch = 3,
    /// A result differs from its reference.
    Differs = 4,
    /// A bug in flashc.
    Bug = 70,
}

impl From<Exit> for ExitCode {
    fn from(e: Exit) -> ExitCode {
        ExitCode::from(e as u8)
    }
}

/// Why a command ends early; what to say has been said.
pub(crate) type Result<T> = std::result::Result<T, Exit>;

/// Says what is wrong with the command line or a file.
pub(crate) fn usage(message: impl std::fmt::Display) -> Exit {
    eprintln!("error: {message}");
    Exit::Usage
}

/// A line on standard output. A reader that has seen enough, as `head` has, ends the process quietly.
macro_rules! out {
    ($($text:tt)*) => {{
        use std::io::Write;
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    }};
}
pub(crate) use out;
