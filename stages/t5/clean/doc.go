// Package clean prepares prompts for the tokenizers of T5 and its variants, each as the model's reference does: Caption as
// Open-Sora, PlanCaption as Open-Sora-Plan, Prompt as Wan.
//
// Text comes in and text goes out. Repairs that several references share are in stages/t5/ftfy.
package clean
