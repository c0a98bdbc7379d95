"""What the machine can do: peak arithmetic rate, memory in use."""

import contextlib
import os
import platform
import re
import resource
import sys
import time

import tensorflow as tf

# Dense peak in FLOP/s by a part of the device's name (vendors' data sheets), for
# bfloat16/float16 and for float32 (TF32 where the device has it).
PEAKS = {
    "H200": (989e12, 494e12),
    "H100": (989e12, 494e12),
    "A100": (312e12, 156e12),
    "L4": (121e12, 60e12),
    "V100": (125e12, 15.7e12),
    "T4": (65e12, 8.1e12),
}


def peak_flops(dtype):
    """Returns (FLOP/s of one device, where the number comes from).

    GPUs that `PEAKS` knows are looked up. Anything else is measured with a large
    matrix product, so utilisation is then relative to that.

    Args:
      dtype: "float32", "bfloat16" or "float16".
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "")
        for part, (half, single) in PEAKS.items():
            if part in re.split(r"[\s-]", name):
                return single if dtype == "float32" else half, name
    return measured_flops(dtype), "measured matrix product"


def measured_flops(dtype, size=1536, seconds=0.3):
    """Returns the FLOP/s of [size, size] matrix products in `dtype` on one device."""
    a = tf.cast(tf.random.stateless_uniform([size, size], [1, 2]), dtype)
    tf.matmul(a, a).numpy()
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        tf.reduce_sum(tf.matmul(a, a)).numpy()
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


def describe():
    """Returns what a report says of the machine: system, processor, devices."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        processor = names[0] if names else processor
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "system": platform.platform(),
        "processor": processor,
        "cores": os.cpu_count(),
        "gpus": gpus,
    }


def memory_bytes():
    """Returns the peak memory: of the first GPU if there is one, else the process."""
    if tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
