//! Device time of a piece of work, by events around single calls.
//!
//! Before each call 256 MiB are overwritten, so that L2 holds nothing useful and the GPU is busy until the
//! host has enqueued the call: host overhead is not in the figures.

use crate::device::Device;
use crate::error::Result;
use crate::memory::{DeviceBuffer, Event, Stream};
use std::time::Instant;

const FLUSH_BYTES: usize = 256 << 20;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Device time to spend on measured calls, in microseconds.
    pub budget_us: f64,
    /// Fewest measured calls.
    pub min_calls: usize,
    /// Most measured calls.
    pub max_calls: usize,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions { budget_us: 200_000.0, min_calls: 7, max_calls: 50 }
    }
}

/// Times of single calls, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// The middle one.
    pub median_us: f64,
    /// The shortest.
    pub min_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Number of calls.
    pub n: usize,
}

impl Stats {
    /// Statistics of samples; `None` without any.
    pub fn of(samples: &[f64]) -> Option<Stats> {
        let mut s = samples.to_vec();
        s.sort_by(f64::total_cmp);
        let (n, min_us, max_us) = (s.len(), *s.first()?, *s.last()?);
        let median_us = if n % 2 == 1 { s[n / 2] } else { (s[n / 2 - 1] + s[n / 2]) / 2.0 };
        Some(Stats { median_us, min_us, max_us, n })
    }
}

/// Measures `call`, which must only enqueue work on the stream that it is given.
pub fn bench(
    device: &Device,
    options: BenchOptions,
    mut call: impl FnMut(&Stream) -> Result<()>,
) -> Result<Stats> {
    let stream = Stream::new(device)?;
    let mut flush = DeviceBuffer::new(device, FLUSH_BYTES)?;
    call(&stream)?;
    stream.synchronize()?;

    let flush_us = timed(device, &stream, 3, || flush.fill(0, &stream))?;
    let host = Instant::now();
    let estimate_us = timed(device, &stream, 3, || call(&stream))?.max(1.0);
    let host_us = host.elapsed().as_secs_f64() * 1e6 / 3.0;
    for _ in 0..((10_000.0 / estimate_us) as usize).clamp(1, 10) {
        call(&stream)?; // warm-up
    }
    // Enough overwriting to keep the GPU busy while the host enqueues the call.
    let holds = ((host_us.min(3000.0) * 1.5 + 30.0) / flush_us.max(1.0)).ceil() as usize;
    let calls = ((options.budget_us / estimate_us) as usize).clamp(options.min_calls, options.max_calls);
    let mut pairs = Vec::with_capacity(calls);
    for _ in 0..calls {
        pairs.push((Event::new(device)?, Event::new(device)?));
    }
    for (start, end) in &pairs {
        for _ in 0..holds.max(1) {
            flush.fill(0, &stream)?;
        }
        start.record(&stream)?;
        call(&stream)?;
        end.record(&stream)?;
    }
    stream.synchronize()?;
    let samples = pairs.iter().map(|(a, b)| a.micros_until(b)).collect::<Result<Vec<_>>>()?;
    Ok(Stats::of(&samples).unwrap_or(Stats { median_us: 0.0, min_us: 0.0, max_us: 0.0, n: 0 }))
}

/// Mean microseconds of `n` calls back to back.
fn timed(device: &Device, stream: &Stream, n: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    start.record(stream)?;
    for _ in 0..n {
        call()?;
    }
    end.record(stream)?;
    end.synchronize()?;
    Ok(start.micros_until(&end)? / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        assert_eq!(Stats::of(&[]), None);
        let odd = Stats::of(&[3.0, 1.0, 2.0]);
        assert_eq!(odd, Some(Stats { median_us: 2.0, min_us: 1.0, max_us: 3.0, n: 3 }));
        assert_eq!(Stats::of(&[4.0, 1.0, 2.0, 3.0]).map(|s| s.median_us), Some(2.5));
    }
}
