// Package nvml knows the GPUs of a machine as their driver describes them (NVML): which there are, how they are
// linked, how they are, and what has happened to them. It chooses sets of devices that talk fast to each other
// (topology), says what an event means (the XID catalogue), and keeps processes from taking one device twice
// (claims).
//
// It computes nothing on a device and imports nothing of CUDA; kernels/cuda does that, and the two meet by UUID.
// Without the tag cuda Open says that this program was built without it, and everything else works on the fakes
// of gputest. A fact more is a field of Device or Status, read in nvml_*.go and given by the fakes.
package nvml
