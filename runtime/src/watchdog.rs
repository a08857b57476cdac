//! Ends the process when a piece of work takes too long, as a hung kernel does: a thread that waits for a
//! kernel cannot be interrupted.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Exit status of a process that the watchdog ended.
pub const EXIT_STATUS: i32 = 86;

/// While it lives, the process ends with [`EXIT_STATUS`] once the time is over. Dropping it disarms.
#[derive(Debug)]
pub struct Guard {
    // Dropping the sender wakes the thread.
    _alive: Sender<()>,
}

impl Guard {
    /// Arms a watchdog; `what` appears in its message.
    pub fn new(limit: Duration, what: &str) -> Guard {
        let what = what.to_owned();
        Guard::with_action(limit, move || {
            eprintln!(
                "flashc: watchdog: {what} took longer than {:.1} s; a kernel may hang",
                limit.as_secs_f64()
            );
            std::process::exit(EXIT_STATUS);
        })
    }

    fn with_action(limit: Duration, action: impl FnOnce() + Send + 'static) -> Guard {
        let (alive, gone) = channel::<()>();
        thread::spawn(move || {
            if gone.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                action();
            }
        });
        Guard { _alive: alive }
    }

    /// Disarms, as dropping does.
    pub fn disarm(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_only_while_armed() {
        let (fired, seen) = channel();
        let late = fired.clone();
        let guard = Guard::with_action(Duration::from_millis(30), move || {
            let _ = late.send("disarmed");
        });
        guard.disarm();
        let _guard = Guard::with_action(Duration::from_millis(30), move || {
            let _ = fired.send("armed");
        });
        assert_eq!(seen.recv_timeout(Duration::from_secs(20)), Ok("armed"));
        assert!(seen.recv_timeout(Duration::from_millis(60)).is_err());
    }
}
