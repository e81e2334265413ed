"""A function compiled for an accelerator that is not there.

XLA's compilers for NVIDIA's H100 (`jax-cuda12-pjrt`) and Google's TPU v5e (`libtpu`)
need a device to run a program, not to make it. Nothing here runs on a device, and
nothing measures time there.
"""

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

# libtpu must not look for its cloud, nor insist on being alone.
for _name, _value in {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}.items():
    os.environ.setdefault(_name, _value)

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec  # noqa: E402

from experiments.accelerators import counting  # noqa: E402

# Arrays stay on the CPU: else the plug-in for CUDA asks for a driver and stays away.
# JAX reads JAX_PLATFORMS when it is imported, which may have been earlier.
jax.config.update("jax_platforms", "cpu")

__all__ = [
    "COMPILERS",
    "TARGETS",
    "Report",
    "compile_lowered",
    "is_installed",
    "lower",
    "mesh",
]

TARGETS = ("h100", "v5e")
#: Packages of each compiler with their versions, as requirements.txt has them.
COMPILERS = {
    target: {
        name: version
        for name, _, version in (
            line.partition("==")
            for line in pathlib.Path(__file__)
            .with_name("requirements.txt")
            .read_text()
            .split()
        )
        if version and name.startswith(starts)
    }
    for target, starts in (("h100", ("jax-cuda12", "nvidia-cuda")), ("v5e", "libtpu"))
}

#: What XLA asks the driver of an H100 (SXM, 80 GB) for, as its own repository has it.
_H100 = """gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472  core_count: 132  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 84942979072  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
}
platform_name: "CUDA"  device_description_str: "NVIDIA H100 80GB HBM3"
"""


@dataclasses.dataclass
class Report:
    """What the compiler made of a function, for one device and one call.

    Attributes:
      seconds: Seconds of the compiler, by the clock.
      argument_bytes: Bytes of the arguments.
      temp_bytes: Bytes between arguments and results.
      counts: What the program does.
      text: Optimised program.
    """

    seconds: float
    argument_bytes: int
    temp_bytes: int
    counts: counting.Counts
    text: str


def is_installed(target: str) -> bool:
    """Tell whether the compiler of a target is installed whole, in its version."""
    try:
        return all(
            metadata.version(name) == version
            for name, version in COMPILERS[target].items()
        )
    except metadata.PackageNotFoundError:
        return False


def mesh(target: str, num_devices: int = 1, *, axis: str = "data") -> Mesh:
    """Return devices to compile for, in a row."""
    if target == "h100":
        found = topologies.get_topology_desc(
            "", "cuda", topology=f"1x1x{num_devices}", target_config=_H100
        )
    else:
        name = "v5e:2x2" if num_devices <= 4 else "v5e:2x4"
        found = topologies.get_topology_desc(name, "tpu")
    return Mesh(np.array(found.devices[:num_devices]), (axis,), (AxisType.Auto,))


def lower(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    devices: Mesh,
    shardings: Any = None,
    donate: tuple[int, ...] = (),
) -> Any:
    """Return a function as it is given to the compiler.

    Args:
      function: Function of arrays.
      arguments: Trees of arrays or of `jax.ShapeDtypeStruct`. Nothing is allocated.
      devices: Mesh from `mesh`.
      shardings: Prefix of `arguments` of `PartitionSpec`; None copies to all devices.
      donate: Places of the arguments that results may overwrite.
    """

    def place(spec: PartitionSpec, part: Any) -> Any:
        layout = NamedSharding(devices, spec)
        return jax.tree.map(lambda leaf: leaf.update(sharding=layout), part)

    specs = PartitionSpec() if shardings is None else shardings
    given = jax.eval_shape(lambda *parts: parts, *arguments)
    given = jax.tree.map(place, specs, given)
    return jax.jit(function, donate_argnums=donate).lower(*given)


def compile_lowered(
    lowered: Any, *, is_gpu: bool, trips: dict[str, float] | None = None
) -> Report:
    """Compile what `lower` gave and count what the program does.

    Args:
      lowered: A lowered function.
      is_gpu: True for the H100.
      trips: Trips of `counting.count`.
    """
    began = time.perf_counter()
    compiled = lowered.compile()
    seconds = time.perf_counter() - began
    memory, text = compiled.memory_analysis(), compiled.as_text()
    assert memory is not None and text is not None
    return Report(
        seconds=seconds,
        argument_bytes=memory.argument_size_in_bytes,
        temp_bytes=memory.temp_size_in_bytes,
        counts=counting.count(text, is_gpu=is_gpu, trips=trips),
        text=text,
    )
