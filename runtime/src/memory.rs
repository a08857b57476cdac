//! Device memory, streams and events for callers that have no PyTorch: the command line and tests.

use crate::device::Device;
use crate::driver;
use crate::error::{Error, Result};
use cudarc::driver::sys::{CUevent, CUstream};

/// Bytes on a GPU, freed when dropped.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    pointer: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates; the contents are undefined.
    pub fn new(device: &Device, bytes: usize) -> Result<DeviceBuffer> {
        let pointer = driver::allocate(&device.enter()?, bytes)?;
        Ok(DeviceBuffer { device: device.clone(), pointer, bytes })
    }

    /// Allocates and copies.
    pub fn from_bytes(device: &Device, bytes: &[u8]) -> Result<DeviceBuffer> {
        let mut buffer = DeviceBuffer::new(device, bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// The device address, a multiple of 256.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Has it no bytes?
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies to its start; returns when done.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.fits("writing a device buffer", bytes.len())?;
        driver::copy_in(&self.device.enter()?, self.pointer, bytes)
    }

    /// Copies from its start; returns when done. Only waits for the default stream: synchronize first.
    pub fn read(&self, bytes: &mut [u8]) -> Result<()> {
        self.fits("reading a device buffer", bytes.len())?;
        driver::copy_out(&self.device.enter()?, self.pointer, bytes)
    }

    /// All of its bytes.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Sets every byte, on a stream.
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        driver::fill(&self.device.enter()?, self.pointer, byte, self.bytes, stream.raw)
    }

    fn fits(&self, what: &'static str, given: usize) -> Result<()> {
        if given <= self.bytes {
            return Ok(());
        }
        Err(Error::BufferSize { what, given: given as u64, capacity: self.bytes as u64 })
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if let Ok(current) = self.device.enter() {
            driver::free(&current, self.pointer);
        }
    }
}

/// A queue of work on a GPU.
#[derive(Debug)]
pub struct Stream {
    device: Device,
    raw: CUstream,
    owned: bool,
}

impl Stream {
    /// A new stream, independent of the default one. Destroyed when dropped.
    pub fn new(device: &Device) -> Result<Stream> {
        let raw = driver::stream_create(&device.enter()?)?;
        Ok(Stream { device: device.clone(), raw, owned: true })
    }

    /// The legacy default stream.
    pub fn legacy(device: &Device) -> Stream {
        Stream { device: device.clone(), raw: std::ptr::null_mut(), owned: false }
    }

    /// The handle, as [`crate::Kernel::launch`] takes it.
    pub fn raw(&self) -> u64 {
        self.raw as usize as u64
    }

    /// Waits for its work.
    pub fn synchronize(&self) -> Result<()> {
        driver::stream_synchronize(&self.device.enter()?, self.raw)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(current) = self.device.enter()
        {
            driver::stream_destroy(&current, self.raw);
        }
    }
}

/// A point in a stream, with its time.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: CUevent,
}

impl Event {
    /// A new event.
    pub fn new(device: &Device) -> Result<Event> {
        let raw = driver::event_create(&device.enter()?)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Marks this point of a stream.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        driver::event_record(&self.device.enter()?, self.raw, stream.raw)
    }

    /// Waits until it has happened.
    pub fn synchronize(&self) -> Result<()> {
        driver::event_synchronize(&self.device.enter()?, self.raw)
    }

    /// Microseconds from this event to a later one; both must have happened.
    pub fn micros_until(&self, later: &Event) -> Result<f64> {
        Ok(driver::event_elapsed(&self.device.enter()?, self.raw, later.raw)? as f64 * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(current) = self.device.enter() {
            driver::event_destroy(&current, self.raw);
        }
    }
}
