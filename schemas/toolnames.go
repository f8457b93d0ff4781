package schemas

import "strings"

// ToolName is the name of a parameter in another tool. Field is the same parameter of a prompt table; if there is none, Advice
// says where a job sets it.
type ToolName struct {
	Name  string // in lower case
	Tools string // the tools that use the name
	// Field is the field with the same meaning, or FieldSize; "": none has it.
	Field string
	// Advice says what to write instead, where Field is "".
	Advice string
}

// FieldSize is a column that holds both sides of a video, width first, as "832*480" or "832x480". It sets height and width and
// is not a Field.
const FieldSize = "size"

// toolNames lists names of fields first, then names of settings that belong to the job or do not exist here.
var toolNames = []ToolName{
	{Name: "positive", Field: "prompt", Tools: "ComfyUI"},
	{Name: "positive_prompt", Field: "prompt", Tools: "ComfyUI"},
	{Name: "cap", Field: "prompt", Tools: "FastVideo"},
	{Name: "neg_prompt", Field: "negative_prompt", Tools: "FastVideo"},
	{Name: "negative", Field: "negative_prompt", Tools: "ComfyUI"},
	{Name: "n_prompt", Field: "negative_prompt", Tools: "Wan"},
	{Name: "base_seed", Field: "seed", Tools: "Wan"},
	{Name: "noise_seed", Field: "seed", Tools: "ComfyUI"},
	{Name: "frame_num", Field: "num_frames", Tools: "Wan"},
	{Name: "video_length", Field: "num_frames", Tools: "musubi-tuner"},
	{Name: "length", Field: "num_frames", Tools: "ComfyUI"},
	{Name: "frame_rate", Field: "fps", Tools: "ComfyUI"},
	{Name: "sample_steps", Field: "num_inference_steps", Tools: "Wan, sd-scripts"},
	{Name: "sampling_steps", Field: "num_inference_steps", Tools: "Wan"},
	{Name: "infer_steps", Field: "num_inference_steps", Tools: "musubi-tuner"},
	{Name: "num_sampling_steps", Field: "num_inference_steps", Tools: "Open-Sora, FastVideo"},
	{Name: "cfg", Field: "guidance_scale", Tools: "ComfyUI"},
	{Name: "cfg_scale", Field: "guidance_scale", Tools: "Open-Sora"},
	{Name: "guide_scale", Field: "guidance_scale", Tools: "Wan"},
	{Name: "sample_guide_scale", Field: "guidance_scale", Tools: "Wan"},
	{Name: "num_images_per_prompt", Field: "num_videos_per_prompt", Tools: "diffusers"},
	{Name: "images_per_prompt", Field: "num_videos_per_prompt", Tools: "sd-scripts"},
	{Name: "num_sample", Field: "num_videos_per_prompt", Tools: "Open-Sora"},
	{Name: "image", Field: "reference", Tools: "diffusers, Wan"},
	{Name: "image_path", Field: "reference", Tools: "FastVideo, musubi-tuner"},
	{Name: "first_frame", Field: "reference", Tools: "diffusers"},
	{Name: "init_image", Field: "reference", Tools: "diffusers, sd-scripts"},
	{Name: "start_image", Field: "reference", Tools: "ComfyUI"},
	{Name: FieldSize, Field: FieldSize, Tools: "Wan"},

	{Name: "last_image", Tools: "diffusers", Advice: lastFrame},
	{Name: "last_frame", Tools: "diffusers", Advice: lastFrame},
	{Name: "end_image", Tools: "ComfyUI", Advice: lastFrame},
	{Name: "end_image_path", Tools: "musubi-tuner", Advice: lastFrame},
	{Name: "guidance_scale_high_noise", Tools: "musubi-tuner",
		Advice: "guidance_scale is the scale of the expert for high noise, guidance_scale_2 of the one for low noise"},
	{Name: "embedded_cfg_scale", Tools: "FastVideo, musubi-tuner", Advice: "no model here takes an embedded guidance scale"},
	{Name: "strength", Tools: "diffusers", Advice: noPartial},
	{Name: "denoise", Tools: "ComfyUI", Advice: noPartial},
	{Name: "denoising_strength", Tools: "ComfyUI", Advice: noPartial},
	{Name: "shift", Tools: "ComfyUI", Advice: flowShift},
	{Name: "flow_shift", Tools: "FastVideo, musubi-tuner", Advice: flowShift},
	{Name: "sample_shift", Tools: "Wan", Advice: flowShift},
	{Name: "discrete_flow_shift", Tools: "musubi-tuner, sd-scripts", Advice: flowShift},
	{Name: "sampler", Tools: "sd-scripts", Advice: flowSolver},
	{Name: "sampler_name", Tools: "ComfyUI", Advice: flowSolver},
	{Name: "sample_solver", Tools: "Wan", Advice: flowSolver},
	{Name: "scheduler", Tools: "diffusers, ComfyUI", Advice: flowSolver},
	{Name: "boundary", Tools: "Wan", Advice: boundary},
	{Name: "boundary_ratio", Tools: "diffusers", Advice: boundary},
	{Name: "lora", Tools: "sd-scripts", Advice: loras},
	{Name: "loras", Tools: "diffusers", Advice: loras},
	{Name: "lora_name", Tools: "ComfyUI", Advice: loras},
	{Name: "lora_path", Tools: "FastVideo", Advice: loras},
	{Name: "lora_weight", Tools: "musubi-tuner", Advice: loras},
	{Name: "lora_weights", Tools: "diffusers", Advice: loras},
	{Name: "lora_scale", Tools: "diffusers", Advice: loras},
	{Name: "lora_multiplier", Tools: "musubi-tuner", Advice: loras},
	{Name: "model", Tools: "ComfyUI", Advice: model},
	{Name: "model_path", Tools: "FastVideo", Advice: model},
	{Name: "ckpt_dir", Tools: "Wan", Advice: model},
	{Name: "ckpt_name", Tools: "ComfyUI", Advice: model},
	{Name: "checkpoint", Tools: "ComfyUI", Advice: model},
	{Name: "batch_size", Tools: "ComfyUI", Advice: "num_videos_per_prompt is the number of videos of a row; " +
		"`resources: {batch_size: 4}` is how many rows are computed together"},
	{Name: "save_file", Tools: "Wan", Advice: output},
	{Name: "output_path", Tools: "FastVideo", Advice: output},
	{Name: "filename_prefix", Tools: "ComfyUI", Advice: output},
}

// Advices that several names share.
const (
	flowShift  = "it belongs to the job: `stages: [..., denoise: {flow_shift: 5}]`"
	flowSolver = "it belongs to the job: `stages: [..., denoise: {flow_solver: unipc}]`"
	boundary   = "it belongs to the job: `stages: [..., denoise: {boundary_ratio: 0.875}]`"
	loras      = "it belongs to the job: `model: {path: MODEL, loras: [{path: FILE, scale: 1}]}`"
	model      = "it belongs to the job: `model: MODEL`"
	output     = "it belongs to the job: `output: {name: \"{id}\"}`"
	lastFrame  = "write first and last frame into one column: `reference: FIRST;LAST`"
	noPartial  = "videos are made from noise alone, never from a noised input"
)

// ToolNames lists the parameter names of diffusers, Wan, FastVideo, musubi-tuner, ComfyUI, sd-scripts and Open-Sora that are
// not names of this program. The caller must not change the list.
func ToolNames() []ToolName { return toolNames }

// ToolNameOf looks name up in the list, ignoring case.
func ToolNameOf(name string) (ToolName, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, t := range toolNames {
		if t.Name == name {
			return t, true
		}
	}
	return ToolName{}, false
}
