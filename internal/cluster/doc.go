// Package cluster moves parts of tensors between the ranks of a group (kernels.Transport): through
// shared memory inside a process (Shared) and over TCP between processes and hosts (Node.Join). Processes
// also call each other (Node.Call). Linked devices exchange parts directly (linked.go), and the connections carry
// only control messages. A process that knows the token is trusted to run jobs. Lengths that it sends are not trusted:
// every head is checked against the expected exchange or against limits.go.
//
// The package does not know what a part means. A new transport is a file here that
// passes the suite in suite_test.go.
package cluster
