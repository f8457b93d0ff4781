// Package dit says what a diffusion transformer is to a job. A network lives in a package of its own, such as
// stages/stdit, and implements three small interfaces: Network is the opened model, Model its weights on a device, Batch
// some rows that are ready for the steps. A Family finds the network by the model's own config.json. The stage `denoise`
// (stages/diffuse) samples with any of them; its plain_test.go has the smallest one. No network knows of samplers,
// guidance, ranks or clips, and nothing here knows what a network does inside.
//
// Description.Evaluator is a network as a sampler calls it on one device, stages/diffuse/shares on the ranks of a set.
// SampleBytes and Work measure it.
//
// How others will fit:
//   - Attention over all tokens of a video, as in Wan (stages/wan) and Open-Sora-Plan: columns lie on the ranks as they do now, and
//     Batch.Advance calls nn.SelfAttention.AddFull with Rows.Split; Description.Full tells the cost model. Sparse
//     attention re-arranges the tokens behind the same exchange. Padded boxes are a sequence.Mask for each row.
//   - A timestep for each frame (Wan 2.2 5B): a frame that is not in Instant.Generated is at timestep 0.
//   - First frames and masks as more input channels (Wan I2V): Rows.Given has them in Prepare. Embed copies them beside
//     the patch vectors and multiplies once. Images then needs a way to say that guidance keeps two branches.
//   - UniPC, Euler and other steps: a sampler.Recipe. Noise inside a step is sampler.Noise by its number.
package dit
