// Package cuda is the backend for NVIDIA GPUs: gorgonia.org/cu with a loader (driver) and our own kernels as PTX (kern), under
// the build tag cuda. Without the tag, or without a driver, the package returns an error that says why, and the program
// continues with CPUs.
//
// A device has one engine: its primary context, one locked thread that makes all driver calls, and the loaded kernels. A
// Backend is a stream of an engine with an arena of device memory; several backends share a device and its weights. Methods of
// Backend check their operands and append launches to a queue (queue.go), which passes them to the thread in batches. Wait and
// Download return results and errors.
//
// The kernels (kern) fix the order of every sum, independent of the number of blocks that run at once, so results do not depend
// on the batch, the stream or the number of devices. They do depend on the GPU's instructions: Class names the compute
// capability.
//
// The package knows no model and no file format. To add an operation: write its kernel in kern, then the method here, which
// fills the structure of the kernel's arguments.
package cuda
