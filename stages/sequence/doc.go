// Package sequence plans how ranks share one forward of a video transformer: the owner of each column, the rank that
// computes the attention of each frame, and all transfers. The plan is a pure function of the shape and the ranks'
// speeds, so every rank works it out for itself and nobody asks another for a size.
//
// No device, transport, clock or model may enter. Another way to share is a Partition beside Uneven and Pad,
// its case in New, and a place in the fuzz test.
package sequence
