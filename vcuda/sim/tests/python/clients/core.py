"""cuda.core: compiles C++ by NVRTC, for the card it finds, and launches it on a stream of its own."""

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device(0)
device.set_current()
stream = device.create_stream()
source = 'extern "C" __global__ void fill(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 1; }'
program = Program(source, code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}"))
for kind in ("ptx", "cubin"):
    kernel = program.compile(kind).get_kernel("fill")
    memory = device.allocate(4096, stream=stream)
    start, end = stream.record(options={"timing_enabled": True}), None
    launch(stream, LaunchConfig(grid=4, block=256), kernel, memory, 1024)
    end = stream.record(options={"timing_enabled": True})
    stream.sync()
    assert end - start > 0
    memory.close(stream)
print(device.name, kernel.attributes.num_regs)
