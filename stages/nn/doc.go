// Package nn holds the layers that several models share, and how the ranks of a set share them.
//
// Layers are small structs with exported parts and run on a kernels.Backend. They allocate results in the
// scope open at the call and free what they need on the way. What belongs to one architecture alone stays
// in that model's package; file formats and devices never enter. To add a layer, give its noun a file
// here, with the shapes on every line.
package nn
