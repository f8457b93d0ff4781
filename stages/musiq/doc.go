// Package musiq rates the technical quality of images with MUSIQ (Ke et al., arXiv 2108.05997), the network of pyiqa with its
// weights for SPAQ. Patches of an image in its own size and in two smaller sizes each pass a small ResNet, and then a
// transformer together.
//
// Products and convolutions run on a device. Resizing, the standardisation of the ResNet's few weights and its only pooling run
// on the host.
package musiq
