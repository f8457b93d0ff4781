// Package flow has the common parts of optical flow networks: images with repeated edges, comparisons of all places of two
// images, and interpolated lookups.
package flow
