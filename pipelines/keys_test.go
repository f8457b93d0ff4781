package pipelines_test

import (
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// TestKeysIgnoreHowAJobRuns: keys do not depend on how a job is written down or run.
func TestKeysIgnoreHowAJobRuns(t *testing.T) {
	j := jobtest.NewJob(t, "prompt,seed\na red circle,1\n")
	j.Stages = "[encode_text, denoise, decode_vae, encode_video: {qp: 25, gop: 8}]"
	j.Computes(t, 1)
	for what, change := range map[string]func(*jobtest.Job){
		"the order of options": func(j *jobtest.Job) {
			j.Stages = "[encode_text, denoise, decode_vae, encode_video: {gop: 8, qp: 25}]"
		},
		"defaults spelled out": func(j *jobtest.Job) {
			j.Stages = "[encode_text: {clean: true}, denoise: {sequence_parallel: auto, cfg_channel: 3}, " +
				"decode_vae: {}, encode_video: {codec: h264, encoder: embedded, gop: 8, qp: 25}]"
		},
		"options that change no value": func(j *jobtest.Job) {
			j.Stages = "[encode_text, denoise: {sequence_parallel: 1}, decode_vae: {micro_batch_size: 1}, " +
				"encode_video: {qp: 25, gop: 8}]"
		},
		"a guard": func(j *jobtest.Job) {
			j.Stages = "[encode_text, denoise, decode_vae, guard, encode_video: {qp: 25, gop: 8}]"
		},
		"workers, threads, batches": func(j *jobtest.Job) {
			j.Sets = []string{"resources.workers=2", "resources.threads=2", "resources.batch_size=1"}
		},
		"the runner": func(j *jobtest.Job) {
			j.Sets = []string{"runner=" + jobtest.InProcess(t)[len(jobtest.InProcess(t))-1].Name}
		},
	} {
		same := j
		change(&same)
		if r := same.MustRun(t); !r.NothingToDo {
			t.Errorf("%s: the run computed %d rows, want 0", what, r.Done)
		}
	}
	// If a row repeats a value that it has anyway, only the tables change, and nothing is computed.
	j.Rewrite(t, "prompt,seed,height,note\na red circle,1,16,new\n")
	j.Computes(t, 0)
}

// TestKeysIncludeEveryCause: after a change that affects results, a run computes their rows again.
func TestKeysIncludeEveryCause(t *testing.T) {
	j := jobtest.NewJob(t, "prompt\na red circle\n")
	j.Computes(t, 1)
	stages := func(list string) func(*jobtest.Job) { return func(j *jobtest.Job) { j.Stages = list } }
	for what, change := range map[string]func(*jobtest.Job){
		"cleaning":     stages("[encode_text: {clean: false}, denoise, decode_vae, encode_video]"),
		"guidance":     stages("[encode_text, denoise: {cfg_channel: 4}, decode_vae, encode_video]"),
		"the quality":  stages("[encode_text, denoise, decode_vae, encode_video: {qp: 40}]"),
		"the job seed": func(j *jobtest.Job) { j.Sets = []string{"defaults.seed=8"} },
		"a default":    func(j *jobtest.Job) { j.Sets = []string{"defaults.guidance_scale=2"} },
	} {
		other := j
		change(&other)
		if r := other.MustRun(t); r.Done != 1 {
			t.Errorf("after a change of %s, the run computed %d rows, want all", what, r.Done)
		}
	}
}
