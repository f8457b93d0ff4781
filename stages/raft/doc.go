// Package raft estimates optical flow with RAFT (Teed and Deng, arXiv 2003.12039), the network of princeton-vl/RAFT and
// torchvision's raft_large. It compares the features of two images at all pairs of places; a recurrent network refines the flow
// with values that it looks up in the comparison.
//
// Products and convolutions run on a device. Lookups, some hundred places for each pixel, run on the host.
package raft
