package main

import "time"

// promise is a promise of the program, and the test that shows it in `make test` with small counts. That test needs no compiler,
// ffmpeg, Python or Java, and it is never skipped.
type promise struct{ name, claim, room, test string }

// promises are the promises of docs/reliability.md. Each has at least one proof.
var promises = []promise{
	{"P1", "Every row ends in one place, done or failed. kill -9 at any moment loses and doubles nothing.",
		"pipelines/suites/restarts", "TestPromiseP1"},
	{"P2", "A file with its final name is whole, and what was reported as done survives a power cut.",
		"internal/storage/ledger", "TestPowerCut"},
	{"P3", "A poisoned prompt never stops a job.",
		"pipelines/suites/tables", "TestMillionRows"},
	{"P4", "Equal keys give equal bytes, whatever the batches, ranks, threads and restarts (one numeric class).",
		"pipelines/suites/runners", "TestPromiseP4"},
	{"P5", "A hostile checkpoint cannot execute, crash or take memory beyond its size.",
		"stages/weights/torchpickle", "TestPromiseP5"},
	{"P6", "A hostile parquet file cannot take the job down.",
		"internal/table/read", "TestMutants"},
	{"P7", "Nothing is written outside of the output.",
		"pipelines", "TestPromiseP7"},
	{"P8", "Trouble with a bucket never gives a part of an object, or two.",
		"internal/storage/store/s3", "TestSchedules"},
	{"P9", "A full or failing disk stops the job with 75 (3 after a failed fsync), and the next run completes it.",
		"pipelines", "TestPromiseP9"},
	{"P10", "A sick device harms only what it computes at that moment.",
		"internal/engine", "TestNotFinite"},
	{"P11", "Silent damage of an output is found by verify.",
		"pipelines/suites/damage", "TestPromiseP11"},
	{"P12", "No secret is shown anywhere, no prompt in logs, messages, names of files and facts of runs.",
		"internal/cli", "TestPromiseP12"},
	{"P13", "Clocks do not matter.",
		"internal/cli", "TestPromiseP13"},
	{"P14", "A worker trusts no byte of a peer.",
		"internal/cluster", "TestPromiseP14"},
	{"P15", "Outputs of released formats stay readable, and reruns on them compute nothing.",
		"internal/cli", "TestPromiseP15"},
	{"P16", "Copies of one job at the same time are safe.",
		"pipelines/suites/restarts", "TestPromiseP16"},
	{"P17", "A store that lies is noticed: before the first row where a check finds it, and by name.",
		"internal/storage/store/s3", "TestBehaviours"},
	{"P18", "No wait for another's answer without a word and an end.",
		"internal/storage/store/storetest", "TestFlaws"},
}

// proof is a run of tests of a package that print a figure for a promise.
type proof struct {
	promise string
	room    string // package of the tests, relative to the root
	tests   string // names, joined by |
	counts  counts // for make nightly
	release counts // replace counts before a release
	budget  time.Duration
	cuda    bool // uses the stand-in driver, which needs gcc and g++
	only    bool // runs only before a release or when it is named
}

// counts are environment variables with the number of repetitions in a test.
type counts map[string]int

const second = time.Second

// proofs run one after the other. Budgets are processor time.
var proofs = []proof{
	{promise: "P1", room: "internal/engine/simulator", tests: "TestJobs", counts: counts{"LATENTBEAM_SEEDS": 10_000},
		release: counts{"LATENTBEAM_SEEDS": 100_000}, budget: 900 * second},
	{promise: "P1", room: "pipelines/suites/restarts", tests: "TestPromiseP1", counts: counts{"LATENTBEAM_KILLS": 1000},
		release: counts{"LATENTBEAM_KILLS": 10_000}, budget: 900 * second},
	{promise: "P1", room: "pipelines/suites/restarts", tests: "TestKillAndResume", counts: counts{"LATENTBEAM_POINT_KILLS": 4}, budget: 60 * second},
	{promise: "P1", room: "pipelines/suites/restarts", tests: "TestKillAtEveryStep", counts: counts{"LATENTBEAM_STEP_KILLS": 49}, budget: 60 * second},
	{promise: "P1", room: "pipelines/suites/restarts", tests: "TestKillAndResumeInBuckets", counts: counts{"LATENTBEAM_BUCKET_KILLS": 15},
		release: counts{"LATENTBEAM_BUCKET_KILLS": 100}, budget: 120 * second},
	{promise: "P1", room: "pipelines/suites/restarts", tests: "TestKillPrecompute", counts: counts{"LATENTBEAM_KILLS": 10},
		release: counts{"LATENTBEAM_KILLS": 200}, budget: 60 * second},
	{promise: "P1", room: "internal/cli", tests: "TestPreemption", counts: counts{"LATENTBEAM_GRACES": 3}, budget: 240 * second},
	{promise: "P2", room: "internal/storage/ledger", tests: "TestPowerCut|TestPowerCutHeals|TestFlawsAreFound",
		counts: counts{"LATENTBEAM_SURVIVALS": 200}, release: counts{"LATENTBEAM_SURVIVALS": 2000}, budget: 60 * second},
	{promise: "P2", room: "internal/engine/simulator", tests: "TestFlaws", counts: counts{"LATENTBEAM_FLAWS": 1}, budget: 400 * second},
	{promise: "P3", room: "pipelines/suites/tables", tests: "TestMillionRows", counts: counts{"LATENTBEAM_MILLION": 1_000_000}, budget: 150 * second},
	{promise: "P3", room: "pipelines/suites/tables", tests: "TestMillionClips", counts: counts{"LATENTBEAM_CLIPS": 500_000},
		budget: 600 * second, only: true},
	{promise: "P3", room: "internal/results/export", tests: "TestMemoryOfManyFiles", counts: counts{"LATENTBEAM_EXPORT_FILES": 20_000},
		release: counts{"LATENTBEAM_EXPORT_FILES": 100_000}, budget: 40 * second},
	{promise: "P4", room: "pipelines/suites/runners", tests: "TestPromiseP4", counts: counts{"LATENTBEAM_COMBINATIONS": 100},
		release: counts{"LATENTBEAM_COMBINATIONS": 2000}, budget: 150 * second},
	{promise: "P4", room: "pipelines/suites/models", tests: "TestSameBytesWithCaches", counts: counts{"LATENTBEAM_CACHED": 8}, budget: 180 * second},
	{promise: "P5", room: "stages/weights/safetensors", tests: "TestPromiseP5", counts: counts{"LATENTBEAM_MUTANTS": 20_000},
		release: counts{"LATENTBEAM_MUTANTS": 1_000_000}, budget: 20 * second},
	{promise: "P5", room: "stages/weights/torchpickle", tests: "TestPromiseP5", counts: counts{"LATENTBEAM_MUTANTS": 20_000},
		release: counts{"LATENTBEAM_MUTANTS": 1_000_000}, budget: 20 * second},
	{promise: "P6", room: "internal/table/read", tests: "TestMutants", counts: counts{"LATENTBEAM_MUTANTS": 60_000},
		release: counts{"LATENTBEAM_MUTANTS": 600_000}, budget: 180 * second},
	{promise: "P7", room: "pipelines", tests: "TestPromiseP7", counts: counts{"LATENTBEAM_NAMES": 500}, budget: 60 * second},
	{promise: "P8", room: "internal/storage/store/dir", tests: "TestSchedules", counts: counts{"LATENTBEAM_STORE_SCHEDULES": 100},
		release: counts{"LATENTBEAM_STORE_SCHEDULES": 2000}, budget: 40 * second},
	{promise: "P8", room: "internal/storage/store/gcs", tests: "TestLaws|TestSchedules", counts: counts{"LATENTBEAM_STORE_SCHEDULES": 100},
		release: counts{"LATENTBEAM_STORE_SCHEDULES": 2000}, budget: 70 * second},
	{promise: "P8", room: "internal/storage/store/s3", tests: "TestLaws|TestSchedules", counts: counts{"LATENTBEAM_STORE_SCHEDULES": 100},
		release: counts{"LATENTBEAM_STORE_SCHEDULES": 2000}, budget: 70 * second},
	{promise: "P8", room: "internal/storage/store/s3", tests: "TestHistories|TestHistoriesFindLies",
		counts: counts{"LATENTBEAM_HISTORIES": 100}, release: counts{"LATENTBEAM_HISTORIES": 1000}, budget: 40 * second},
	{promise: "P8", room: "internal/storage/store/gcs", tests: "TestHistories", counts: counts{"LATENTBEAM_HISTORIES": 100},
		release: counts{"LATENTBEAM_HISTORIES": 1000}, budget: 60 * second},
	{promise: "P8", room: "internal/storage/store/open", tests: "TestHistoriesBetweenHosts", counts: counts{"LATENTBEAM_HISTORIES": 100},
		release: counts{"LATENTBEAM_HISTORIES": 1000}, budget: 20 * second},
	{promise: "P9", room: "pipelines", tests: "TestPromiseP9", counts: counts{"LATENTBEAM_ERRORS": 125},
		release: counts{"LATENTBEAM_ERRORS": 1_000_000}, budget: 180 * second},
	{promise: "P10", room: "internal/engine", tests: "TestNotFinite|TestIllDevice", budget: 20 * second},
	{promise: "P10", room: "kernels/cuda", tests: "TestPromiseP10", counts: counts{"LATENTBEAM_GPU_SCHEDULES": 500},
		budget: 120 * second, cuda: true},
	{promise: "P11", room: "pipelines/suites/damage", tests: "TestPromiseP11", counts: counts{"LATENTBEAM_FLIPS": 2000},
		release: counts{"LATENTBEAM_FLIPS": 10_000}, budget: 60 * second},
	{promise: "P12", room: "internal/cli", tests: "TestPromiseP12", budget: 60 * second},
	{promise: "P13", room: "internal/cli", tests: "TestPromiseP13", counts: counts{"LATENTBEAM_CLOCK": 15},
		release: counts{"LATENTBEAM_CLOCK": 500}, budget: 120 * second},
	{promise: "P14", room: "internal/cluster", tests: "TestPromiseP14", counts: counts{"LATENTBEAM_STRANGERS": 2000},
		release: counts{"LATENTBEAM_STRANGERS": 50_000}, budget: 60 * second},
	{promise: "P15", room: "internal/cli", tests: "TestPromiseP15", budget: 20 * second},
	{promise: "P16", room: "pipelines/suites/restarts", tests: "TestPromiseP16", counts: counts{"LATENTBEAM_RACES": 200},
		release: counts{"LATENTBEAM_RACES": 2000}, budget: 240 * second},
	{promise: "P17", room: "internal/storage/store/s3", tests: "TestBehaviours", budget: 30 * second},
	{promise: "P18", room: "stages/weights/hub", tests: "TestEndless|TestDrip", budget: 30 * second},
	{promise: "P18", room: "internal/storage/store/storetest", tests: "TestFlaws", budget: 30 * second},
}

// fuzzTime is the time for each fuzz target.
const (
	fuzzTime        = 28 * second
	fuzzTimeRelease = 10 * time.Minute
	fuzzBudget      = 2*fuzzTime + 15*second // processor time: two processors, and building
)

// night is the processor time for all proofs and targets together: a little more than an hour on two processors.
const night = 2*time.Hour + 10*time.Minute

// target is a fuzz target of a parser that takes bytes from outside.
type target struct{ room, name, bytes string }

var targets = []target{
	{"stages/weights/safetensors", "FuzzNew", "weights"},
	{"stages/weights/safetensors", "FuzzParseIndex", "indices of weights in parts"},
	{"stages/weights/gguf", "FuzzGGUF", "weights of GGUF"},
	{"stages/weights/torchpickle", "FuzzNew", "checkpoints of PyTorch"},
	{"stages/weights/torchpickle", "FuzzPickle", "pickles in archives"},
	{"stages/t5/sentencepiece", "FuzzLoad", "tokenizer models"},
	{"internal/storage/ledger", "FuzzSegment", "segments of the ledger"},
	{"internal/config", "FuzzParse", "job files"},
	{"stages/t5/ftfy", "FuzzFix", "prompts"},
	{"stages/t5/clean", "FuzzCaption", "captions"},
	{"stages/sequence", "FuzzPlan", "shapes"},
	{"stages/layout", "FuzzParseDevices", "descriptions of devices"},
	{"internal/cluster", "FuzzFrame", "frames of peers"},
	{"internal/cluster", "FuzzReceive", "messages of peers"},
	{"internal/engine/coder", "FuzzBatch", "batches and saved steps of peers"},
	{"internal/engine/coder", "FuzzBlock", "packed rows for the workers of an engine"},
	{"stages/weights/lora", "FuzzAdapter", "adapters"},
	{"stages/diffuse/condition", "FuzzStrategy", "mask strategies and prompts of several clips"},
	{"internal/table/read", "FuzzParquet", "parquet"},
	{"internal/table/read", "FuzzCSV", "csv"},
	{"internal/table/read", "FuzzJSONL", "lines of JSON"},
	{"internal/table/read", "FuzzTar", "tar of WebDataset"},
	{"internal/table/read", "FuzzPacked", "packed tables"},
	{"internal/media", "FuzzY4M", "y4m"},
	{"internal/media", "FuzzMP4", "mp4"},
	{"internal/media", "FuzzProbe", "what ffprobe writes"},
	{"internal/media", "FuzzImage", "png and jpeg"},
	{"internal/media/marks", "FuzzInspect", "mp4, png and jpeg with marks"},
	{"internal/media/marks", "FuzzManifest", "manifests of content credentials"},
	{"internal/media/marks", "FuzzXMP", "XMP"},
	{"internal/media/timestamp", "FuzzRead", "answers of time stamp authorities"},
	{"internal/storage/store/bucket", "FuzzRecord", "locks in buckets"},
	{"stages/catalog", "FuzzConfig", "config.json, scheduler_config.json, model_index.json"},
	{"stages/exec", "FuzzAnswer", "answers of programs"},
	{"stages/exec", "FuzzOutputs", "files that programs make"},
	{"stages/weights/hub", "FuzzAnswer", "answers of a hub"},
	{"runners", "FuzzAnswer", "answers of engines"},
	{"internal/watch/runfiles", "FuzzFacts", "job.json, facts and stop markers"},
	{"internal/watch/runfiles", "FuzzWitness", "what is remembered of an output"},
	{"internal/watch/runfiles", "FuzzRows", "rows, marks and trouble of the workers of an engine"},
	{"internal/results/audit", "FuzzSummary", "summary.json"},
}
