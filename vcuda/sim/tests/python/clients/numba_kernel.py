"""numba-cuda: a kernel in Python is compiled, loaded and launched; arrays go there and come back."""

import numpy
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


x = numpy.arange(1000, dtype=numpy.float32)
there = cuda.to_device(x)
out = cuda.device_array_like(there)
stream = cuda.stream()
start, end = cuda.event(), cuda.event()
start.record(stream)
add[4, 256, stream](there, there, out)
end.record(stream)
end.synchronize()
assert cuda.event_elapsed_time(start, end) > 0
assert (there.copy_to_host() == x).all()
free, total = cuda.current_context().get_memory_info()
assert free < total
print(cuda.get_current_device().name, add.signatures)
