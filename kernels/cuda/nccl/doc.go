// Package nccl lets GPUs of several processes exchange by NVIDIA's NCCL, found at run time. It needs no header:
// what is used of the interface (nccl.c) is the same since version 2.14. Behind the build tag cuda.
//
// Communicators do not block: every call returns at once, and State tells when what it began is done. So the thread
// of a device is never caught in NCCL, whatever becomes of the others. Only Abort may take its time; it is for a
// thread of its own.
//
// It was compiled, run against a stand-in (kernels/cuda/fake), and compared with the header and the library of
// version 2.27.3: names and numbers of all calls, the size of ncclUniqueId, the first fields of ncclConfig_t, the
// results. Between GPUs it was not run yet.
package nccl
