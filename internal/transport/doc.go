// Package transport carries parts of tensors between the ranks of a group (kernels.Transport): through
// shared memory inside a process (Shared) and over TCP between processes and hosts (Mesh).
//
// What a part means never enters: plans and models are above. A new way of carrying is a file here that
// passes the suite in suite_test.go.
package transport
