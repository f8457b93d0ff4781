// Package nccl exchanges data between GPUs of several processes with NVIDIA's NCCL, which it finds at run time. It needs no header,
// because the part of the interface in nccl.c has not changed since version 2.14. It needs the build tag cuda.
//
// Communicators do not block: every call returns at once, and State reports when the operation is done. So the thread of a device
// never hangs in NCCL, even if other ranks fail. Only Abort may block, so it needs a thread of its own.
//
// It was compiled, tested with a stand-in (kernels/cuda/fake), and compared with the header and the library of version 2.27.3: names
// and numbers of all calls, the size of ncclUniqueId, the first fields of ncclConfig_t, and the results. It was not run between GPUs
// yet.
package nccl
