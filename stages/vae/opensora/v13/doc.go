// Package v13 implements the autoencoder of Open-Sora 1.3, OpenSoraVAE_V1_3, with its published tensor names: one causal 3D
// network for groups of 17 frames, based on MAGVIT-v2 (arXiv:2310.05737). Videos are channels last, (1, T, H, W, C).
package v13
