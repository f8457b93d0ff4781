// Package dit defines the interface of a diffusion transformer. A network has a package of its own, such as stages/stdit, and
// implements three small interfaces: Network is the opened model, Model its weights on a device, and Batch some rows that are
// prepared for the steps. A Family finds the network by the model's config.json. The stage `denoise` (stages/diffuse) samples
// with any of them; stages/diffuse/plain_test.go has the smallest one. A network does not know samplers, guidance, ranks or
// clips, and this package does not know what a network computes inside.
//
// Description.Evaluator makes a network callable for a sampler on one device; stages/diffuse/shares does it for the ranks of a
// set. SampleBytes and Work measure the memory and work of a network.
//
// How other architectures fit:
//   - Attention over all tokens of a video, as in Wan (stages/wan) and Open-Sora-Plan: columns are divided over ranks as always,
//     and Batch.Advance calls nn.SelfAttention.AddFull with Rows.Split; Description.Full informs the cost model. Sparse
//     attention re-arranges the tokens after the same exchange. Padded boxes are a sequence.Mask for each row.
//   - A timestep for each frame (Wan 2.2 5B): a frame that is not in Instant.Generated is at timestep 0.
//   - First frames and masks as more input channels (Wan I2V): Prepare gets them in Rows.Given. Embed copies them beside
//     the patch vectors and multiplies once. Images then needs a way to say that guidance keeps two branches.
//   - UniPC, Euler and other steps: a sampler.Recipe. Noise inside a step is sampler.Noise with its number.
package dit
