//! The last error of a thread, and the boundary that no panic crosses.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Status of a panic in our code.
const PANIC: i32 = -1;
/// Status of a call with null or malformed arguments.
const MISUSE: i32 = -2;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    status: i32,
    code: String,
    text: String,
}

impl Failure {
    /// The caller broke the rules of the interface.
    pub(crate) fn misuse(text: String) -> Failure {
        Failure { status: MISUSE, code: "MISUSE".into(), text: format!("error: {text}") }
    }

    /// A bug of ours.
    pub(crate) fn bug(text: String) -> Failure {
        Failure { status: PANIC, code: "BUG".into(), text }
    }
}

impl From<flashc_runtime::Error> for Failure {
    fn from(e: flashc_runtime::Error) -> Failure {
        let code = e.code();
        let status = code.trim_start_matches('L').parse().unwrap_or(MISUSE);
        Failure { status, code: code.to_owned(), text: e.render() }
    }
}

thread_local! {
    static LAST: RefCell<(CString, CString)> = RefCell::default();
}

fn remember(f: Failure) -> i32 {
    let c = |s: String| CString::new(s.replace('\0', " ")).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = (c(f.code), c(f.text)));
    f.status
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("a bug in flashc: {}", text.unwrap_or("it panicked"))
}

/// Runs the body of an exported function: its status, with errors and panics remembered.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => remember(failure),
        Err(payload) => remember(Failure::bug(panic_text(&*payload))),
    }
}

/// The message of this thread's last error; empty if there was none. Valid until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn flashc_error_message() -> *const c_char {
    LAST.with_borrow(|last| last.1.as_ptr())
}

/// Its code, for example `L0307`; as [`flashc_error_message`].
#[unsafe(no_mangle)]
pub extern "C" fn flashc_error_code() -> *const c_char {
    LAST.with_borrow(|last| last.0.as_ptr())
}
