// Package shares evaluates a network (stages/diffuse/dit) on the ranks of a set. The result has the same bytes as on one
// device, where dit.Description.Evaluator does the same.
//
// The rows of an evaluation are pairs (element, branch): the prompt, and with guidance the null text. A batch has both branches
// or one of them. A sequence.Plan says which rank has which columns, that is pairs (row, patch).
//
// Latents stay with their columns over all sampling steps. A rank samples its shares: some patches of an element with all
// frames, as host values (C, T, pixels).
//
// Guidance needs the network's output for all branches of a share. A rank that computes one branch gets the other branches from
// their ranks, and all these ranks take the same sampling step on the same values. A step that needs the moments of a whole
// element gathers them from all ranks.
//
// In a pipeline the rows of a rank are a microbatch: its tokens go through the stages, and the predictions come back. This
// package does not know samplers or other stages of a job.
package shares
