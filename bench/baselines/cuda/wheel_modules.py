# SPDX-License-Identifier: Apache-2.0
"""Single modules of an unpacked vLLM wheel, without the package's own initialisation and its dependencies.

install(site) makes `import vllm.X` take the modules of REAL from the wheel's files; packages are bare names, and whatever else they import of
vLLM is a stub that answers to any name. Measured paths run only REAL modules and the wheel's libraries.
"""

import importlib.machinery
import importlib.util
import logging
import math
import os
import sys
import tempfile
import types
from pathlib import Path

import torch

_LAYERS = "vllm.model_executor.layers."
REAL = {
    "vllm.scalar_type",
    "vllm._custom_ops",
    "vllm.utils.math_utils",
    _LAYERS + "fused_moe.activation",
    _LAYERS + "fused_moe.experts.marlin_moe",
    _LAYERS + "fused_moe.moe_align_block_size",
    _LAYERS + "fused_moe.moe_fused_mul_sum",
    _LAYERS + "quantization.utils.marlin_utils",
    _LAYERS + "quantization.utils.marlin_utils_fp4",
    _LAYERS + "quantization.utils.humming.activation",
}
LIBRARIES = ("_moe_C_stable_libtorch", "_C_stable_libtorch")
_done: set = set()


class _Stub(type):
    """A class of which every attribute is another; called as a decorator it hands the function back."""

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _stub(name)

    def __iter__(cls):
        return iter(())

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, item):
        return cls


def _stub(name):
    def new(cls, *args, **named):
        if len(args) == 1 and not named and callable(args[0]):
            return args[0]
        return cls if cls.__dict__.get("_is_stub") else object.__new__(cls)

    return _Stub(name, (), {"__new__": new, "_is_stub": True, "__init_subclass__": classmethod(lambda cls, **named: None)})


class _StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        setattr(self, name, _stub(name))
        return getattr(self, name)


class _Platform:
    """What the real modules ask of vllm.platforms.current_platform, for a CUDA device."""

    device_type = "cuda"
    device_name = "cuda"
    simple_compile_backend = "eager"
    dispatch_key = "CUDA"

    def __getattr__(self, name):
        if name.startswith("is_"):
            return lambda *args, **named: name in ("is_cuda", "is_cuda_alike")
        raise AttributeError(name)

    def import_kernels(self):
        pass

    def fp8_dtype(self):
        return torch.float8_e4m3fn

    def get_device_capability(self, device_id=0):
        return torch.cuda.get_device_capability(device_id)

    @staticmethod
    def _number(capability):
        return capability if isinstance(capability, int) else capability[0] * 10 + capability[1]

    def has_device_capability(self, capability, device_id=0):
        return self._number(capability) <= self._number(self.get_device_capability())

    def is_device_capability(self, capability, device_id=0):
        return self._number(capability) == self._number(self.get_device_capability())

    def is_device_capability_family(self, capability, device_id=0):
        return self._number(capability) // 10 == self.get_device_capability()[0]

    def is_arch_support_pdl(self):
        return self.get_device_capability()[0] >= 9

    def num_compute_units(self, device_id=0):
        return torch.cuda.get_device_properties(device_id).multi_processor_count


class _Log(logging.Logger):
    def info_once(self, *args, **named):
        pass

    warning_once = debug_once = info_once


_operators = torch.library.Library("vllm", "FRAGMENT")


def _register(op_name, op_func, *args, mutates_args=None, **named):
    """torch.ops.vllm.NAME."""
    try:
        _operators.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args or []))
        _operators.impl(op_name, op_func, "CUDA")
    except RuntimeError:  # defined already
        pass


def _first_elements(x, shape):
    return x.flatten()[:math.prod(shape)].view(*shape)


def _fill(module):
    """The few attributes of stub modules that must be more than stubs."""
    if module.__name__ == "vllm.triton_utils":
        import triton

        module.triton, module.tl, module.HAS_TRITON = triton, triton.language, True
    for name, value in {
        "vllm.platforms": {"current_platform": _Platform()},
        "vllm.logger": {"init_logger": _Log},
        "vllm.envs": {"VLLM_MARLIN_USE_ATOMIC_ADD": False, "VLLM_MARLIN_INPUT_DTYPE": None, "VLLM_BATCH_INVARIANT": False},
        "vllm.utils.torch_utils": {"direct_register_custom_op": _register},
        "vllm.utils.platform_utils": {"num_compute_units": _Platform().num_compute_units},
        _LAYERS + "fused_moe.utils": {"_resize_cache": _first_elements},
    }.items():
        if module.__name__ == name:
            module.__dict__.update(value)


class _Finder:
    def __init__(self, site: Path):
        self.site = site

    def find_spec(self, name, path=None, target=None):
        if name != "vllm" and not name.startswith("vllm."):
            return None
        file = self.site.joinpath(*name.split(".")).with_suffix(".py")
        if name in REAL and file.is_file():
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = _StubModule(spec.name)
        module.__path__ = [str(self.site.joinpath(*spec.name.split(".")))]
        return module

    def exec_module(self, module):
        _fill(module)


def install(site: Path) -> None:
    if "install" in _done:
        return
    _done.add("install")
    os.environ.setdefault("HUMMING_CACHE_DIR", str(Path(tempfile.gettempdir()) / "humming_cache"))
    sys.meta_path.insert(0, _Finder(site))
    sys.path.insert(0, str(site))  # humming


def load_libraries(site: Path) -> None:
    if "libraries" in _done:
        return
    _done.add("libraries")
    for name in LIBRARIES:
        torch.ops.load_library(str(site / "vllm" / f"{name}.abi3.so"))
