// Package cluster carries parts of tensors between the ranks of a group (kernels.Transport): through
// shared memory inside a process (Shared) and over TCP between processes and hosts (Node.Join), which also
// call each other (Node.Call). Devices that can be linked exchange by themselves (linked.go), and the connections
// carry what the ranks have to agree on. Who knows the token is trusted to run jobs, but not with lengths: every
// head is checked against what the plan expects, or against limits.go.
//
// What a part means never enters: plans and models are above. A new way of carrying is a file here that
// passes the suite in suite_test.go.
package cluster
