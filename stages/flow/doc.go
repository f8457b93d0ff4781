// Package flow has what networks of optical flow share: images with their edges repeated, comparisons of all places of two images, and
// values read between places.
package flow
