// Package amt makes the frame in the middle of two by AMT-S (Li et al., arXiv 2304.09790), the network of MCG-NKU/AMT that VBench measures
// smoothness with: flows from the middle to both frames are refined from coarse to fine by what is looked up in comparisons of all places,
// and three of them in full size bring the two frames together.
//
// Convolutions and products run on a device; flows, what they move, and resizing run on the host.
package amt
