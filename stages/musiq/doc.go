// Package musiq rates the technical quality of images by MUSIQ (Ke et al., arXiv 2108.05997), the network of pyiqa with its weights for
// SPAQ: patches of an image in its own size and in two smaller ones go through a small ResNet each and a transformer together.
//
// Products and convolutions run on a device, resizing, the standardisation of the few weights of the ResNet and its one pooling on the host.
package musiq
