// Package sequence plans how ranks share one evaluation of a video transformer: which rank owns each column, which rank
// computes the attention of each frame, and all transfers. The plan is a pure function of the shape and the ranks' speeds, so
// every rank computes it itself and no rank asks another for a size.
//
// The package does not use devices, transports, clocks or models. Another way to share is a Partition beside Uneven and Pad,
// with its case in New and in the fuzz test.
package sequence
