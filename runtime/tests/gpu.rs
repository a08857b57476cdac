//! Tests that need a GPU (`cargo test -p flashc-runtime --features gpu-tests --test gpu -- --test-threads 1`).
//! They fail without one. Their kernels are hand-written, in testdata/; test_flashc.py has more, through PyTorch.

use flashc_ir::artifact::Artifact;
use flashc_runtime::{
    Args, BenchOptions, Cache, DType, Device, DeviceBuffer, Error, Event, Kernel, LoadOptions, Result,
    Stream, TensorArg, bench, contiguous_strides, watchdog,
};
use std::time::{Duration, Instant};

fn kernel(device: &Device, json: &str) -> Kernel {
    let options = LoadOptions { cache: Cache::Off, preload_all: true, ..LoadOptions::default() };
    Kernel::load(device, &Artifact::from_json(json).unwrap(), &options).unwrap()
}

const SCALE: &str = include_str!("../testdata/scale.json");
const COPY: &str = include_str!("../testdata/copy.json");

#[test]
fn buffers_streams_events_and_a_launch() -> Result<()> {
    let _guard = watchdog::Guard::new(Duration::from_secs(60), "the test");
    let device = Device::open(0)?;
    assert_eq!(device.facts().capability, (9, 0));
    let kernel = kernel(&device, SCALE);
    let x: Vec<u8> = (0..1000).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let input = DeviceBuffer::from_bytes(&device, &x)?;
    let mut output = DeviceBuffer::new(&device, x.len())?;
    let stream = Stream::new(&device)?;
    output.fill(0xff, &stream)?;
    let tensor = |b: &DeviceBuffer| TensorArg {
        pointer: b.pointer(),
        dtype: DType::F32,
        shape: &[1000],
        strides: &[1],
        device: 0,
    };
    let (start, end) = (Event::new(&device)?, Event::new(&device)?);
    start.record(&stream)?;
    let report =
        kernel.launch(&stream, &Args::new().tensor(tensor(&input)).tensor(tensor(&output)).scalar(2.0))?;
    end.record(&stream)?;
    stream.synchronize()?;
    assert!(report.launched && start.micros_until(&end)? > 0.0);
    let doubled: Vec<u8> = (0..1000).flat_map(|i| (2.0 * i as f32).to_le_bytes()).collect();
    assert_eq!(output.to_vec()?, doubled);
    assert_eq!(output.write(&[0; 5000]).unwrap_err().code(), "L0109");
    assert!(matches!(DeviceBuffer::new(&device, 1 << 45), Err(Error::OutOfMemory { .. })));
    assert_eq!(Device::open(99).unwrap_err().code(), "L0103");
    Ok(())
}

/// A copy of 256 MiB must take the time that its traffic takes, and a tiny one hardly any.
#[test]
fn bench_measures_device_time() -> Result<()> {
    let device = Device::open(0)?;
    let kernel = kernel(&device, COPY);
    for (s, at_least, at_most) in [(16i64, 1.0, 12.0), (1 << 21, 90.0, 2000.0)] {
        let shape = [1, 1, s, 64];
        let strides = contiguous_strides(&shape);
        let (x, y) =
            (DeviceBuffer::new(&device, s as usize * 128)?, DeviceBuffer::new(&device, s as usize * 128)?);
        let tensor = |b: &DeviceBuffer| TensorArg {
            pointer: b.pointer(),
            dtype: DType::BF16,
            shape: &shape,
            strides: &strides,
            device: 0,
        };
        let args = Args::new().tensor(tensor(&x)).tensor(tensor(&y));
        let stats =
            bench(&device, BenchOptions::default(), |stream| kernel.launch(stream, &args).map(|_| ()))?;
        println!("{} KiB each way: {stats:?}", s / 8);
        assert!((at_least..at_most).contains(&stats.median_us), "{stats:?}");
        assert!(stats.min_us <= stats.median_us && stats.n >= 7);
    }
    Ok(())
}

/// Prints the host time of a launch and the part of it that is ours.
#[test]
fn launch_overhead() -> Result<()> {
    let device = Device::open(0)?;
    let kernel = kernel(&device, COPY);
    let buffer = DeviceBuffer::new(&device, 1 << 16)?;
    let shape = [1, 1, 16, 64];
    let strides = contiguous_strides(&shape);
    let tensor = |offset| TensorArg {
        pointer: buffer.pointer() + offset,
        dtype: DType::BF16,
        shape: &shape,
        strides: &strides,
        device: 0,
    };
    let stream = Stream::new(&device)?;
    let mut best = [f64::MAX; 2];
    for _ in 0..50 {
        let args = || Args::new().tensor(tensor(0)).tensor(tensor(32768));
        let mut time = |slot: usize, f: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            stream.synchronize()?;
            let start = Instant::now();
            for _ in 0..200 {
                f()?;
            }
            best[slot] = best[slot].min(start.elapsed().as_secs_f64() * 1e6 / 200.0);
            Ok(())
        };
        time(0, &mut || kernel.plan(&args()).map(|_| ()))?;
        time(1, &mut || kernel.launch(&stream, &args()).map(|_| ()))?;
    }
    println!("host time: plan {:.2} us, launch {:.2} us", best[0], best[1]);
    assert!(best[0] < 5.0, "planning takes {:.2} us", best[0]);
    Ok(())
}
