// Package shares evaluates a network (stages/diffuse/dit) on the ranks of a set, so that its bytes are those of one device. It is
// to a set what dit.Description.Evaluator is to a device.
//
// Rows of the forward are (element, branch): the prompt, then under guidance the null text, or one of them alone. Their
// columns (row, patch) lie on the ranks as a sequence.Plan says.
//
// Latents stay where their columns are over all sampling steps. What a rank samples are its shares: some
// patches of an element with all frames, as host values (C, T, pixels).
//
// Guidance needs the network's output for all branches of a share. A rank that computes one of them gets the
// others from their ranks, and all of these ranks take the same sampling step on the same values. A step that needs
// the moments of a whole element gets them from all ranks.
//
// In a pipeline the rows of a rank are a microbatch: its tokens go through the stages, and the predictions come back.
// No sampler and no stage of a job is known here.
package shares
