//! `flashc passes`: the pipeline, in order.

use crate::exit::{Exit, out};
use crate::table::Table;
use flashc_compiler::pipeline::{Level, PASSES};

/// Runs it.
pub(crate) fn passes() -> Exit {
    let table = Table::new(false)
        .words("pass", 18)
        .words("leaves", 6)
        .words("order of sums", 13)
        .words("what it does", 0);
    out!("{}", table.head());
    for p in PASSES {
        let level = match p.level {
            Level::Tile => "tile",
            Level::Sm90 => "sm90",
        };
        let sums = if p.reassociates { "may change" } else { "kept" };
        out!("{}", table.row(&[p.name, level, sums, p.summary]));
    }
    out!("\n`flashc compile FILE --dump-after PASS` shows the IR after one of them.");
    Exit::Ok
}
