// Package cuda is the backend for NVIDIA GPUs: gorgonia.org/cu behind a loader (driver), kernels of our own as
// PTX (kern), behind the build tag cuda. Without the tag, or without a driver, the package answers why there is
// no CUDA and the program goes on with CPUs.
//
// A device has one engine: its primary context, one locked thread that makes all driver calls, and the loaded
// kernels. A Backend is a stream of an engine with an arena of device memory; several share a device and its
// weights. Methods of Backend check their operands and put launches in a queue (queue.go), which the thread
// gets in batches; results, and errors, come at Wait and Download.
//
// The order of every sum is fixed by the kernels (kern), never by the number of blocks that run at once, so
// results do not depend on the batch, the stream or the number of devices. They do depend on the instructions
// that a GPU has: Class names the compute capability.
//
// No model and no file format enters. To add an operation: its kernel in kern, then the method here, which
// fills the structure of the kernel's arguments.
package cuda
