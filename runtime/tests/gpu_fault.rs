//! A fault on the GPU is reported as one. A program of its own, because the context is lost
//! (`cargo test -p flashc-runtime --features gpu-tests --test gpu_fault`); it fails without a GPU.

use flashc_ir::artifact::Artifact;
use flashc_runtime::{Args, DType, Device, Kernel, LoadOptions, Stream, TensorArg};

#[test]
fn a_fault_is_named() {
    let device = Device::open(0).unwrap();
    let artifact = Artifact::from_json(include_str!("../testdata/scale.json")).unwrap();
    let kernel = Kernel::load(&device, &artifact, &LoadOptions::default()).unwrap();
    let t = TensorArg { pointer: 4096, dtype: DType::F32, shape: &[1000], strides: &[1], device: 0 };
    let u = TensorArg { pointer: 65536, ..t };
    let stream = Stream::new(&device).unwrap();
    kernel.launch(&stream, &Args::new().tensor(t).tensor(u).scalar(1.0)).unwrap();
    let e = stream.synchronize().unwrap_err();
    println!("{}", e.render());
    assert_eq!(e.code(), "L0107");
}
