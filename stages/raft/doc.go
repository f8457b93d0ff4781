// Package raft estimates optical flow by RAFT (Teed and Deng, arXiv 2003.12039), the network of princeton-vl/RAFT and torchvision's
// raft_large: features of two images are compared at all pairs of places, and a recurrent network refines the flow by what it looks
// up in them.
//
// Products and convolutions run on a device. What is looked up, some hundred places of each pixel, is read on the host.
package raft
