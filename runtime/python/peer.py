"""flashc as a peer of an attention benchmark: `peers.py bench --plugin runtime/python/peer.py`.

The forward of dsl-examples/flash_attention_fwd.tile. Tensors arrive as (B, S, heads, D) and are passed as views
with their strides; nothing is copied. Settings, all optional:

    FLASHC_TILE       the program, in place of the one in dsl-examples
    FLASHC_ARTIFACTS  a folder of artifacts compiled before, NAME.json as artifact_name() says, in place of compiling
    FLASHC_SET        more generics, "BM=128,BN=128"
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import flashc  # noqa: E402

TYPES = {"bf16": "bf16", "fp16": "f16"}


def artifact_name(generics):
    """attention_fwd-CAUSAL_false-D_128-T_bf16"""
    return "-".join(["attention_fwd", *(f"{k}_{str(v).lower()}" for k, v in sorted(generics.items()))])


class Peer:
    name = "flashc"
    version = "this repository"

    def load(self):
        self.tile = os.environ.get("FLASHC_TILE") or os.path.join(HERE, "..", "..", "dsl-examples", "flash_attention_fwd.tile")
        self.artifacts = os.environ.get("FLASHC_ARTIFACTS")
        self.more = dict(x.split("=") for x in os.environ.get("FLASHC_SET", "").split(",") if x)
        self.kernels = {}
        flashc._lib()

    def kernel(self, **generics):
        generics.update(self.more)
        name = artifact_name(generics)
        if name not in self.kernels:
            if self.artifacts:
                path = os.path.join(self.artifacts, name + ".json")
                if not os.path.exists(path):
                    raise NotImplementedError(f"no artifact {name}")
                self.kernels[name] = flashc.load(path)
            else:
                self.kernels[name] = flashc.compile(self.tile, kernel="attention_fwd", **generics)
        return self.kernels[name]

    def prepare(self, case, q, k, v, do):
        if case.kind not in ("mha", "gqa", "fp16", "decode"):
            raise NotImplementedError(f"no kernel for {case.kind} yet")
        if case.dtype not in TYPES:
            raise NotImplementedError(f"no kernel for {case.dtype} yet")
        import torch
        try:
            kernel = self.kernel(D=case.D, T=TYPES[case.dtype], CAUSAL=bool(case.causal))
        except flashc.FlashcError as e:
            if e.code != "L0208":
                raise
            raise NotImplementedError(str(e).splitlines()[0]) from e
        o = torch.empty_like(q)
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32, device=q.device)
        heads_first = [x.permute(0, 2, 1, 3) for x in (q, k, v, o)]
        launch = kernel.bind(*heads_first, lse, scale=case.D ** -0.5)

        def fwd():
            launch()
            return o
        return dict(fwd=fwd, bwd=None)
