// Package amt computes the frame in the middle of two frames with AMT-S (Li et al., arXiv 2304.09790), the network of
// MCG-NKU/AMT that VBench uses to measure smoothness. It refines flows from the middle to both frames from coarse to fine,
// using comparisons of all places of the two frames. Three flows in full size then combine the two frames.
//
// Convolutions and products run on a device. Flows, moving images by flows, and resizing run on the host.
package amt
