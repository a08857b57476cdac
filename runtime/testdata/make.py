#!/usr/bin/env python3
"""Writes scale.json and copy.json, artifacts with hand-written PTX, from the .ptx files beside this file."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def ptx(name):
    with open(os.path.join(HERE, name)) as f:
        return f.read()


def tensor(name, dtype, elem, dims, out=False):
    return dict(name=name, dtype=dtype, elem=elem, out=out,
                dims=[{"Const": d} if isinstance(d, int) else {"Sym": d} for d in dims])


def variant(name, requires, entry, file, shared, params, maps):
    return dict(name=name, requires=requires, ptx=ptx(file), entry=entry, threads=128, shared_bytes=shared,
                registers=None, params=params, tensor_maps=maps)


def artifact(name, **rest):
    base = dict(format=1, kernel=name, doc="", target="sm_90a", capability=[9, 0], specialization=[], scalars=[], wheres=[])
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        json.dump({**base, **rest}, f, indent=1)
        f.write("\n")


def stride(tensor, axis):
    return {"Stride": {"tensor": tensor, "axis": axis}}


artifact(
    "scale", scalars=[dict(name="a", dtype="f32", elem="F32")], dims=["N"],
    tensors=[tensor("x", "f32", "F32", ["N"]), tensor("y", "f32", "F32", ["N"], True)],
    wheres=[dict(holds={"Binary": ["Gt", {"Scalar": 0}, {"Float": 0.0}]}, text="a > 0.0", line=3)],
    grid=[{"Binary": ["CeilDiv", {"Dim": 0}, {"Int": 128}]}],
    variants=[variant("plain", [], "scale", "scale.ptx", 0,
                      [{"Scalar": 0}, {"Dim": 0}, {"Pointer": 0}, stride(0, 0), {"Pointer": 1}], [])])
common = [{"Dim": 2}, {"Dim": 1}, {"Pointer": 1}]
artifact(
    "copy", dims=["B", "H", "S"],
    tensors=[tensor("x", "bf16", "BF16", ["B", "H", "S", 64]), tensor("y", "bf16", "BF16", ["B", "H", "S", 64], True)],
    grid=[{"Binary": ["CeilDiv", {"Dim": 2}, {"Int": 16}]}, {"Dim": 1}, {"Dim": 0}],
    variants=[
        variant("tma", [{"Aligned16": dict(tensor=0, contiguous=3)}, {"Aligned16": dict(tensor=1, contiguous=3)}],
                "copy", "copy.ptx", 2056, [*common, {"TensorMap": 0}],
                [dict(tensor=0, axes=[3, 2, 1, 0], box_dims=[64, 16, 1, 1], swizzle=0)]),
        variant("plain", [], "copy_plain", "copy_plain.ptx", 0,
                [*common, {"Pointer": 0}, *(stride(0, i) for i in range(4))], [])])
