# SPDX-License-Identifier: Apache-2.0
"""Octet's layers through its C ABI (include/octet/octet.h), by ctypes; tensors are torch's, on the current device."""

import ctypes as c
from pathlib import Path

import torch

ABI = 0  # octet_abi_version() of the header that these structs follow
I32 = 5  # OCTET_I32


class _LoadOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("tp_rank", c.c_int64), ("tp_ranks", c.c_int64), ("ep_rank", c.c_int64),
        ("ep_ranks", c.c_int64), ("activations", c.c_int32), ("precision", c.c_int32), ("image_sentinel_lo", c.c_int64),
        ("backend", c.c_char_p), ("kernel", c.c_char_p), ("progress", c.c_void_p), ("progress_context", c.c_void_p),
        ("pages", c.c_int32), ("numa", c.c_int32), ("packed", c.c_int32), ("reserved", c.c_int32),
    ]


class _Info(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("hidden", c.c_int64), ("intermediate", c.c_int64), ("experts", c.c_int64),
        ("first_expert", c.c_int64), ("local_experts", c.c_int64), ("top_k", c.c_int64), ("weights", c.c_int32),
        ("activations", c.c_int32), ("precision", c.c_int32), ("has_shared_experts", c.c_int32), ("router", c.c_char_p),
        ("kernel", c.c_char_p), ("weight_bytes", c.c_int64), ("resident_bytes", c.c_int64),
    ]


class _Call(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("tokens", c.c_int64), ("x", c.c_void_p), ("topk_ids", c.c_void_p),
        ("topk_ids_dtype", c.c_int32), ("topk_weights", c.c_void_p), ("top_k", c.c_int64), ("logits", c.c_void_p),
        ("input_ids", c.c_void_p), ("input_ids_dtype", c.c_int32), ("shared", c.c_void_p), ("y", c.c_void_p),
        ("topk_ids_out", c.c_void_p), ("topk_weights_out", c.c_void_p), ("rows", c.c_void_p), ("permuted", c.c_void_p),
        ("logits_out", c.c_void_p), ("x_quant", c.c_void_p), ("x_scale", c.c_void_p), ("h_values", c.c_void_p),
        ("h_scales", c.c_void_p), ("h", c.c_void_p),
    ]


class Library:
    def __init__(self, path: Path):
        self.c = c.CDLL(str(path))
        self.c.octet_last_error.restype = self.c.octet_version.restype = c.c_char_p
        self.c.octet_pool_executor.restype = c.c_void_p
        self.c.octet_model_num_layers.restype = c.c_int64
        found = self.c.octet_abi_version()
        if found != ABI:
            raise RuntimeError(f"{path}: ABI {found}, want {ABI}")
        self.version = self.c.octet_version().decode()

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"octet: {self.c.octet_last_error().decode()}")


class Layers:
    """Every layer of a checkpoint in device memory, and one workspace for them all: they run on one stream."""

    def __init__(self, library: Library, checkpoint: Path, most_rows: int, kernel: str | None = None):
        self.lib, model, pool = library, c.c_void_p(), c.c_void_p()
        call = library.c
        library.check(call.octet_model_open(str(checkpoint).encode(), c.byref(model)))
        library.check(call.octet_pool_create(0, c.byref(pool)))
        options = _LoadOptions(struct_size=c.sizeof(_LoadOptions), tp_ranks=1, ep_ranks=1, backend=b"cuda",
                               kernel=kernel.encode() if kernel else None)
        executor = c.c_void_p(call.octet_pool_executor(pool))
        self.layers = []
        for position in range(call.octet_model_num_layers(model)):
            index, layer = c.c_int64(), c.c_void_p()
            library.check(call.octet_model_layer_index(model, c.c_int64(position), c.byref(index)))
            library.check(call.octet_layer_load(model, index, c.byref(options), executor, c.byref(layer)))
            self.layers.append(layer)
        call.octet_pool_destroy(pool)
        call.octet_model_close(model)
        info = _Info(struct_size=c.sizeof(_Info))
        library.check(call.octet_layer_get_info(self.layers[0], c.byref(info)))
        self.hidden, self.intermediate, self.experts, self.top_k = info.hidden, info.intermediate, info.experts, info.top_k
        self.kernel, self.weight_bytes = info.kernel.decode(), info.weight_bytes
        need = c.c_size_t()
        library.check(call.octet_layer_device_workspace_bytes(self.layers[0], c.c_int64(most_rows), c.c_int64(0), c.byref(need)))
        self.workspace = torch.empty(need.value, dtype=torch.uint8, device="cuda")

    def enqueue(self, layer: int, x, logits, y, stream, ids=None, weights=None) -> None:
        """From logits [T, E] and x [T, H] to y; ids and weights [T, k], if given, are written."""
        at = lambda t: None if t is None else t.data_ptr()  # noqa: E731
        call = _Call(struct_size=c.sizeof(_Call), tokens=x.shape[0], x=at(x), topk_ids_dtype=I32, input_ids_dtype=I32,
                     logits=at(logits), y=at(y), topk_ids_out=at(ids), topk_weights_out=at(weights))
        self.lib.check(self.lib.c.octet_layer_enqueue(
            self.layers[layer], c.byref(call), c.c_void_p(self.workspace.data_ptr()), c.c_size_t(self.workspace.numel()),
            c.c_void_p(stream.cuda_stream)))
