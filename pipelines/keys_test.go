package pipelines_test

import "testing"

// TestWhatKeysIgnore: a job that is written otherwise, or run otherwise, is the same job.
func TestWhatKeysIgnore(t *testing.T) {
	j := newJob(t, "prompt,seed\na red circle,1\n")
	j.stages = "[encode_text, denoise, decode_vae, encode_video: {qp: 25, gop: 8}]"
	j.computes(t, 1)
	for what, change := range map[string]func(*job){
		"the order of options": func(j *job) {
			j.stages = "[encode_text, denoise, decode_vae, encode_video: {gop: 8, qp: 25}]"
		},
		"defaults spelled out": func(j *job) {
			j.stages = "[encode_text: {clean: true}, denoise: {sequence_parallel: auto, cfg_channel: 3}, " +
				"decode_vae: {}, encode_video: {codec: h264, encoder: embedded, gop: 8, qp: 25}]"
		},
		"options that change no value": func(j *job) {
			j.stages = "[encode_text, denoise: {sequence_parallel: 1}, decode_vae: {micro_batch_size: 1}, " +
				"encode_video: {qp: 25, gop: 8}]"
		},
		"a guard": func(j *job) {
			j.stages = "[encode_text, denoise, decode_vae, guard, encode_video: {qp: 25, gop: 8}]"
		},
		"workers, threads, batches": func(j *job) {
			j.sets = []string{"resources.workers=2", "resources.threads=2", "resources.batch_size=1"}
		},
		"the runner": func(j *job) { j.sets = []string{"runner=" + inProcess(t)[len(inProcess(t))-1].Name} },
	} {
		same := j
		change(&same)
		if r := same.mustRun(t); !r.NothingToDo {
			t.Errorf("%s: computed %d", what, r.Done)
		}
	}
	// What a row says of itself, but holds anyway, is shown in the tables and computed by nobody.
	j.rewrite(t, "prompt,seed,height,note\na red circle,1,16,new\n")
	j.computes(t, 0)
}

// TestWhatKeysHold: anything that changes a value computes it.
func TestWhatKeysHold(t *testing.T) {
	j := newJob(t, "prompt\na red circle\n")
	j.computes(t, 1)
	stages := func(list string) func(*job) { return func(j *job) { j.stages = list } }
	for what, change := range map[string]func(*job){
		"cleaning":     stages("[encode_text: {clean: false}, denoise, decode_vae, encode_video]"),
		"guidance":     stages("[encode_text, denoise: {cfg_channel: 4}, decode_vae, encode_video]"),
		"the quality":  stages("[encode_text, denoise, decode_vae, encode_video: {qp: 40}]"),
		"the job seed": func(j *job) { j.sets = []string{"defaults.seed=8"} },
		"a default":    func(j *job) { j.sets = []string{"defaults.guidance_scale=2"} },
	} {
		other := j
		change(&other)
		if r := other.mustRun(t); r.Done != 1 {
			t.Errorf("%s: computed %d", what, r.Done)
		}
	}
}
