// Package nn holds the layers that several models use, and how the ranks of a set share them.
//
// Layers are small structs with exported fields that run on a kernels.Backend. They allocate results in the scope open at the
// call and free temporary tensors themselves. Layers of a single architecture stay in that model's package. File formats and
// devices do not belong here. To add a layer, add a file named after it, and write the shapes on every line.
package nn
