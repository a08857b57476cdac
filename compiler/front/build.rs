//! Generates the LR(1) parser from `src/grammar.lalrpop`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    lalrpop::process_src()
}
