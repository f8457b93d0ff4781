package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/config/document"
	"latentbeam/schemas"
)

// Version is the only value of the key "version" that this release reads.
const Version = 1

// Config is a whole job. Relative paths are relative to the current directory, not to the file.
type Config struct {
	Version int    `yaml:"version" json:"version"`         // version of this format: 1
	Preset  string `yaml:"preset" json:"preset,omitempty"` // name of a published configuration; keys of the file override it
	// where the weights are: a name or directory with all components, or a path for each component
	Model Model `yaml:"model" json:"model"`
	// the rows that the job starts from: one of prompts, media, videos, embeddings and latents
	Input Input `yaml:"input" json:"input"`
	// values for rows that do not give them; without them the model's own defaults hold
	Defaults Defaults `yaml:"defaults" json:"defaults"`
	Stages   Stages   `yaml:"stages" json:"stages"` // names of stages, or maps of a name to its options, in order
	// which rows are marked as selected in tables: the best of each group
	Select       Select    `yaml:"select" json:"select,omitzero"`
	Output       Output    `yaml:"output" json:"output"`               // where results are written, and which results
	Runner       Runner    `yaml:"runner" json:"runner"`               // the Beam runner that executes the job: a name, or a map
	Resources    Resources `yaml:"resources" json:"resources"`         // what the job uses of the machine
	OnError      OnError   `yaml:"on_error" json:"on_error"`           // when failures stop the job, and how often attempts are repeated
	DrainTimeout Duration  `yaml:"drain_timeout" json:"drain_timeout"` // time for the rows in flight when the job is told to stop
	// RequireLicence lists the licences that the weights of the model may have, such as [apache-2.0, mit]. A job whose weights have
	// another licence fails before anything is computed. "unknown" in the list also allows weights and programs without a licence.
	RequireLicence StringList `yaml:"require_licence" json:"require_licence,omitempty"`
	// OnComplete are commands and URLs that are notified when the job is complete. No summary and no key contains them, because a
	// URL may contain a secret.
	OnComplete StringList `yaml:"on_complete" json:"-"`

	src  *document.Text
	root *document.Node
	// Extra are stages that a verb adds after the stages of the file.
	Extra     Stages   `yaml:"-" json:"-"`
	laterSets []string // --set texts for stages that the file does not list; Complete applies them
}

// Model names the weights: a name or directory with all components, or a path for each component.
type Model struct {
	Path         string `yaml:"path" json:"path,omitempty"`                   // "tiny", a directory, or OWNER/NAME of a hub
	TextEncoder  string `yaml:"text_encoder" json:"text_encoder,omitempty"`   // a single component: a directory, or a file of weights
	Transformer  string `yaml:"transformer" json:"transformer,omitempty"`     // the denoiser, as text_encoder
	Transformer2 string `yaml:"transformer_2" json:"transformer_2,omitempty"` // the second of two denoisers, for little noise
	ImageEncoder string `yaml:"image_encoder" json:"image_encoder,omitempty"` // CLIP's vision encoder, for image to video with Wan 2.1
	VAE          string `yaml:"vae" json:"vae,omitempty"`                     // the autoencoder, as text_encoder
	// adapters for the denoisers: path, scale (1), expert (both, high or low), unmatched (error or skip)
	Loras []Lora `yaml:"loras" json:"loras,omitempty"`
}

// Lora is an adapter of low rank that is added to the weights of the denoisers.
type Lora struct {
	Path   string   `yaml:"path" json:"path"`     // path of a safetensors file, or of a directory with one
	Scale  *float64 `yaml:"scale" json:"scale"`   // nil: 1
	Expert string   `yaml:"expert" json:"expert"` // which of two denoisers gets it: "both" (also ""), "high" or "low"
	// Unmatched decides what happens to layers that the model does not have: "error" (also "") or "skip".
	Unmatched string `yaml:"unmatched" json:"unmatched,omitempty"`
}

// Input names the rows a job starts from. Exactly one of Prompts, Media, Videos, Embeddings and Latents is given; each
// is a list of paths and glob patterns.
type Input struct {
	Prompts StringList `yaml:"prompts" json:"prompts,omitempty"` // tables: paths, patterns or addresses
	// Media are videos, images and folders of images, tables that name or contain them, tars of WebDataset, and folders with
	// metadata.csv, .jsonl or .parquet.
	Media StringList `yaml:"media" json:"media,omitempty"`
	// Videos are finished videos that are only read, such as for scores. They are named like Media; the output of a job works too.
	Videos     StringList        `yaml:"videos" json:"videos,omitempty"`
	Embeddings StringList        `yaml:"embeddings" json:"embeddings,omitempty"` // tables of text embeddings of an earlier job
	Latents    StringList        `yaml:"latents" json:"latents,omitempty"`       // tables of latents of an earlier job
	Columns    map[string]string `yaml:"columns" json:"columns,omitempty"`       // field of prompt rows: name of its column in the table; "": no column
	// Carry names columns, or patterns of names, that are only copied to the output; "*" copies all. A run warns about other columns
	// that it does not use.
	Carry  StringList `yaml:"carry" json:"carry,omitempty"`
	Format string     `yaml:"format" json:"format"` // auto, csv, json, jsonl, parquet or txt
	// Delimiter is the character between the columns of csv, or tab; "": comma, semicolon, tab or bar, as found in the header.
	Delimiter string `yaml:"delimiter" json:"delimiter,omitempty"`
	// Folders decides what a folder in media is. "": one clip of frames if it contains only png and jpeg files, else all media in
	// it and below it; clip: always one clip of its png and jpeg files.
	Folders string `yaml:"folders" json:"folders,omitempty"`
	// TXT decides which lines of a txt are prompts: "" all except blank lines and lines that begin with #; raw: every line.
	TXT string `yaml:"txt" json:"txt,omitempty"`

	Buckets Buckets `yaml:"buckets" json:"buckets,omitzero"` // sizes and lengths of clips; each medium gets the best fit
	Windows Windows `yaml:"windows" json:"windows,omitzero"` // which frames become clips
	// Resize is the filter for frames, as in Pillow: area, bilinear, bicubic (the default of jobs that cut) or lanczos.
	Resize string `yaml:"resize" json:"resize,omitempty"`
	// Crop decides which part of a frame is kept: center (the default), random, or pad, which keeps all and adds borders.
	Crop string `yaml:"crop" json:"crop,omitempty"`
	Flip bool   `yaml:"flip" json:"flip,omitempty"` // each clip also makes a second row with mirrored frames
	// NullCaption adds a second row without a caption for every clip, to train for classifier-free guidance.
	NullCaption bool `yaml:"null_caption" json:"null_caption,omitempty"`

	// DecodeErrors decides what happens to media and references with errors in frames that are used: fail (also ""), or keep, with
	// the reading decode_errors.
	DecodeErrors string `yaml:"decode_errors" json:"decode_errors,omitempty"`
	// HDR decides what happens to video with high dynamic range (PQ, HLG): keep (also "") uses its values unchanged and adds the
	// reading transfer, tonemap converts it to standard dynamic range, and fail makes the row fail.
	HDR string `yaml:"hdr" json:"hdr,omitempty"`
}

// Select marks the best rows of each group.
type Select struct {
	Best int    `yaml:"best" json:"best"` // number of rows marked in each group
	Of   string `yaml:"of" json:"of"`     // rows with equal values here are a group: prompt, id or a carried column
	By   string `yaml:"by" json:"by"`     // a reading or carried column: the highest value is best; with - before the name, the lowest
}

// Kinds of rows that a job can start from, as returned by Input.Source.
const (
	PromptInput    = "prompts"
	MediaInput     = "media"
	VideoInput     = "videos"
	EmbeddingInput = "embeddings"
	LatentInput    = "latents"
)

// Source returns the kind of rows that the job starts from and where they are.
func (in Input) Source() (kind string, patterns []string) {
	switch {
	case len(in.Media) > 0:
		return MediaInput, in.Media
	case len(in.Videos) > 0:
		return VideoInput, in.Videos
	case len(in.Embeddings) > 0:
		return EmbeddingInput, in.Embeddings
	case len(in.Latents) > 0:
		return LatentInput, in.Latents
	}
	return PromptInput, in.Prompts
}

// Defaults are the values of parameters that a row does not give. Zero and nil mean that the model's own default
// holds.
type Defaults struct {
	Height      int     `yaml:"height" json:"height,omitempty"`             // pixels
	Width       int     `yaml:"width" json:"width,omitempty"`               // pixels
	Resolution  Name    `yaml:"resolution" json:"resolution,omitempty"`     // "720p", instead of height and width
	AspectRatio Name    `yaml:"aspect_ratio" json:"aspect_ratio,omitempty"` // "16:9", width:height; of Open-Sora "9:16", height:width
	NumFrames   Length  `yaml:"num_frames" json:"num_frames,omitempty"`     // 51, or "2s"
	FPS         float64 `yaml:"fps" json:"fps,omitempty"`                   // frames a second
	// seed of the job; the seeds of rows are derived from it
	Seed              *int64 `yaml:"seed" json:"seed,omitempty"`
	NumInferenceSteps int    `yaml:"num_inference_steps" json:"num_inference_steps,omitempty"` // steps of the sampler
	// scale of classifier-free guidance; 1 means no guidance
	GuidanceScale     *float64 `yaml:"guidance_scale" json:"guidance_scale,omitempty"`
	NegativePrompt    string   `yaml:"negative_prompt" json:"negative_prompt,omitempty"`         // what guidance leads away from
	MaxSequenceLength int      `yaml:"max_sequence_length" json:"max_sequence_length,omitempty"` // tokens
	// videos for each row, each with a seed of its own
	NumVideosPerPrompt int `yaml:"num_videos_per_prompt" json:"num_videos_per_prompt,omitempty"`

	// scores that are added to the end of every prompt: a number, or none
	Aes          Name `yaml:"aes" json:"aes,omitempty"`
	Flow         Name `yaml:"flow" json:"flow,omitempty"`                   // as aes
	CameraMotion Name `yaml:"camera_motion" json:"camera_motion,omitempty"` // as aes: a word
	// images or videos to condition on: paths, separated by ";"
	Reference string `yaml:"reference" json:"reference,omitempty"`
	// where the latent frames of the references are placed
	MaskStrategy Name `yaml:"mask_strategy" json:"mask_strategy,omitempty"`
	Loop         int  `yaml:"loop" json:"loop,omitempty"` // clips of a video
	// latent frames of a clip that the next clip continues
	ConditionFrameLength int `yaml:"condition_frame_length" json:"condition_frame_length,omitempty"`
	// how much noise these frames get again: 0 to 1
	ConditionFrameEdit *float64 `yaml:"condition_frame_edit" json:"condition_frame_edit,omitempty"`
	GuidanceScale2     *float64 `yaml:"guidance_scale_2" json:"guidance_scale_2,omitempty"` // guidance scale of the second denoiser
	Noise              string   `yaml:"noise" json:"noise,omitempty"`                       // path of a file with the initial noise
}

// Row returns the defaults, without the seed, as a row for schemas.PromptRow.WithDefaults.
func (d Defaults) Row() schemas.PromptRow {
	return schemas.PromptRow{NegativePrompt: d.NegativePrompt, Height: d.Height, Width: d.Width,
		NumFrames: int(d.NumFrames), FPS: d.FPS, NumInferenceSteps: d.NumInferenceSteps,
		GuidanceScale: d.GuidanceScale, MaxSequenceLength: d.MaxSequenceLength,
		NumVideosPerPrompt: d.NumVideosPerPrompt, Resolution: string(d.Resolution),
		AspectRatio: string(d.AspectRatio), Aes: string(d.Aes), Flow: string(d.Flow),
		CameraMotion: string(d.CameraMotion), Reference: d.Reference, MaskStrategy: string(d.MaskStrategy),
		Loop: d.Loop, ConditionFrameLength: d.ConditionFrameLength, ConditionFrameEdit: d.ConditionFrameEdit,
		GuidanceScale2: d.GuidanceScale2, Noise: d.Noise}
}

// Output is where results are written, and which results.
type Output struct {
	// a directory, gs://BUCKET/PREFIX or s3://BUCKET/PREFIX; {date} stands for today's date
	Path        string     `yaml:"path" json:"path"`
	Write       StringList `yaml:"write" json:"write"`                           // some of video, latents and embeddings
	RowsPerFile int        `yaml:"rows_per_file" json:"rows_per_file,omitempty"` // most rows in a file of a table
	// Timezone is the time zone of {date} and {hour} in Path, such as Europe/Berlin; "" is UTC. At the end of summer time an hour comes
	// twice. {hour} of the second one then includes its offset from UTC: 02+0100.
	Timezone string `yaml:"timezone" json:"timezone,omitempty"`
	// Name is a template with columns, such as "{id}-{seed}". Videos are linked under these names in names/; "": no links.
	Name string `yaml:"name" json:"name,omitempty"`
	// Where is an expression over the columns of the table of videos. Only videos for which it is true are linked; "": all.
	Where string `yaml:"where" json:"where,omitempty"`
	// Scores is the format of scores.json, a file with the readings of all videos: vbench; "": no such file.
	Scores string `yaml:"scores" json:"scores,omitempty"`
	// Verify is how a run checks the videos of earlier runs: by "size" (also ""), or by "digest", which reads all of them.
	// A video that changed after the last check is always read.
	Verify string `yaml:"verify" json:"verify,omitempty"`
	// UnsafeStore lets a job write to a bucket that does not keep what jobs rely on. Nothing then prevents a second run at the same time.
	UnsafeStore bool `yaml:"unsafe_store" json:"unsafe_store,omitempty"`
}

// The values of Output.Verify.
const (
	VerifySize   = "size"
	VerifyDigest = "digest"
)

// ScoresVBench is the value of Output.Scores for the format of VBench's results.
const ScoresVBench = "vbench"

// Writes reports whether the job writes a part: "video", "latents" or "embeddings".
func (o Output) Writes(part string) bool { return slices.Contains(o.Write, part) }

// Runner is the Beam runner that executes the job. Package runners checks which keys each runner accepts.
type Runner struct {
	Name string `yaml:"name" json:"name"` // local, flink, spark, dataflow or prism
	// Endpoint is the address (host:port) of the engine's job server.
	Endpoint string `yaml:"endpoint" json:"endpoint,omitempty"`
	// Parallelism is how many slots of the engine the job uses; 0: the slots of one worker.
	Parallelism int `yaml:"parallelism" json:"parallelism,omitempty"`
	// Waves is how many bundles each slot processes, one after the other; 0: enough to balance hosts of different speed.
	Waves int `yaml:"waves" json:"waves,omitempty"`
	// Environment is how workers are started: "process" (also ""), "external" or "loopback".
	Environment string `yaml:"environment" json:"environment,omitempty"`
	// Command is the path of the worker program on every host; "": the path of this program.
	Command string `yaml:"command" json:"command,omitempty"`
	// Pool is the address (host:port) at which the engine reaches `latentbeam worker --pool`, if Environment is
	// "external".
	Pool string `yaml:"pool" json:"pool,omitempty"`
	// Options are options of the engine; their names are without "beam:option:".
	Options Values `yaml:"options" json:"options,omitempty"`
	// Project is the Google Cloud project that pays for the workers.
	Project string `yaml:"project" json:"project,omitempty"`
	// Region is where the workers run, such as europe-west4.
	Region string `yaml:"region" json:"region,omitempty"`
	// Staging is a prefix in a bucket (gs://BUCKET/PREFIX) for the program, the pipeline and temporary files of the engine.
	Staging string `yaml:"staging" json:"staging,omitempty"`
	// Image is the container image of the workers. It contains the program or Beam's boot program, and local models.
	Image string `yaml:"image" json:"image,omitempty"`
	// MachineType is the machine type of a worker, such as g2-standard-8; "": the engine's default.
	MachineType string `yaml:"machine_type" json:"machine_type,omitempty"`
	// Accelerator is the GPU of a worker, such as nvidia-l4, or nvidia-l4:2 for two; "": none.
	Accelerator string `yaml:"accelerator" json:"accelerator,omitempty"`
	// MaxWorkers is the most machines that the engine may start; 0: no limit.
	MaxWorkers int `yaml:"max_workers" json:"max_workers,omitempty"`
	// Binary is the program that is uploaded for an image with Beam's boot program; "": this program.
	Binary string `yaml:"binary" json:"binary,omitempty"`
}

// RunnerKeys returns the keys of runner that the file or a flag gives, without name, in order.
func (c *Config) RunnerKeys() (keys []string) {
	e := c.root.Lookup("runner")
	if e == nil {
		return nil
	}
	for _, p := range e.Value.Pairs {
		if p.Key != "name" && p.Value.Kind != document.NullKind {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// Values are options for another program. They have the types that encoding/json decodes into.
type Values map[string]any

func (v *Values) fromNode(n *document.Node) (wanted string, ok bool) {
	const form = "a map of keys and values"
	if n.Kind != document.MapKind {
		return form, false
	}
	*v = jsonValue(n).(map[string]any)
	return form, true
}

// Resources limit what the job uses of the machine.
type Resources struct {
	// Device is what the job computes on: "cpu", "gpu", or "auto" (also ""), which uses the GPUs of this host if there
	// are any.
	Device string `yaml:"device" json:"device,omitempty"`
	// Class is the numeric class in which the job computes, such as "cpu/avx2", "cpu/go" or "cuda/sm_90". Another class gives other
	// last bits, so rows get other keys. "auto" (also "") is the class of the rows in the output if this host can compute it, else
	// the best class of the devices.
	Class string `yaml:"class" json:"class,omitempty"`
	// Workers is the number of workers of this process; on GPUs, the number of GPUs, by default all.
	Workers   int             `yaml:"workers" json:"workers"`
	Threads   int             `yaml:"threads" json:"threads,omitempty"` // threads of all workers together; 0: one for every core
	Memory    ByteSize        `yaml:"memory" json:"memory"`             // memory for batches, for each worker
	BatchSize schemas.AutoInt `yaml:"batch_size" json:"batch_size"`     // most rows in a batch; auto: as many as the memory allows

	// Hosts are the addresses (host:port) of `latentbeam worker` processes that were started with the token in TokenFile.
	Hosts     StringList `yaml:"hosts" json:"hosts,omitempty"`
	TokenFile string     `yaml:"token_file" json:"token_file,omitempty"`
	// CheckpointInterval is the time between two saves of the state of a sampler. A kill costs at most this much work.
	CheckpointInterval Interval `yaml:"checkpoint_interval" json:"checkpoint_interval,omitempty"`
	// NCCL decides whether GPUs of several hosts exchange data by this library: "auto" (also ""), if all hosts of a set have it, or
	// "off", which uses TCP. TCP is encrypted, the library is not.
	NCCL string `yaml:"nccl" json:"nccl,omitempty"`
}

// OnError decides when failures stop a job and how often attempts are repeated.
type OnError struct {
	StopAfter Tolerance `yaml:"stop_after" json:"stop_after"` // more failed rows than this stop the job: a fraction ("5%", 0.05) or a number (20)
	MinRows   int       `yaml:"min_rows" json:"min_rows"`     // a fraction can stop the job only after this many rows
	Retries   int       `yaml:"retries" json:"retries"`       // further attempts after errors of the class retry, such as a network that is down
}

// Stop reports whether failed of seen rows are more than StopAfter allows. A fraction counts only after MinRows.
func (o OnError) Stop(seen, failed int64) bool {
	if o.StopAfter.ByCount {
		return failed > o.StopAfter.Count
	}
	return seen >= int64(o.MinRows) && float64(failed) > o.StopAfter.Fraction*float64(seen)
}

func newConfig() *Config {
	return &Config{
		Input:        Input{Format: "auto"},
		Output:       Output{Write: StringList{"video"}},
		Runner:       Runner{Name: "local"},
		Resources:    Resources{Workers: 1},
		OnError:      OnError{StopAfter: Tolerance{Fraction: 0.05}, MinRows: 200, Retries: 3},
		DrainTimeout: Duration(30 * time.Second),
	}
}

// Parse parses the text of a file and applies sets, each a "key=value" of --set. name is the name of the file in messages.
// The error is a *document.Error.
func Parse(name, text string, sets []string) (*Config, error) {
	src := &document.Text{Name: name, Text: []byte(text)}
	root, problems := document.Parse(src, "")
	if problems != nil {
		return nil, problems
	}
	if root == nil {
		return nil, document.NewError(document.Position{Source: src}, "the file is empty").
			WithFix("`latentbeam init` writes a file to start from")
	}
	if root.Kind != document.MapKind {
		return nil, document.NewError(root.Pos, "a job must be a map of keys and values, not %s", root.Describe()).
			WithFix("`latentbeam init` writes a file to start from")
	}
	c := newConfig()
	c.src, c.root = src, root
	problems = &document.Error{}
	apply := func(set string) {
		if err := c.set(set); err != nil {
			problems.Problems = append(problems.Problems, err.Problems...)
		}
	}
	later := func(set string) bool { return strings.HasPrefix(set, "stages.") } // applied after the preset, which can add the stages
	for _, set := range sets {
		if !later(set) {
			apply(set)
		}
	}
	c.usePreset(problems)
	known := c.Given("stages") || !c.wholeModel()
	for _, set := range sets {
		switch {
		case later(set) && known:
			apply(set)
		case later(set):
			c.laterSets = append(c.laterSets, set)
		}
	}
	d := decoder{errors: problems}
	d.decode(root, reflect.ValueOf(c).Elem(), "")
	c.localPaths()
	c.validate(problems)
	if err := problems.OrNil(); err != nil {
		return nil, err
	}
	return c, nil
}

func (m *Model) fromText(text string) { m.Path = text }

func (r *Runner) fromText(text string) { r.Name = text }

// At returns the position of a dotted path such as "defaults.height" or "stages.denoise.sequence_parallel" in the file. A stage
// is named by its name or its index from 0. If the path is not in the file, At returns the position of the longest
// beginning of the path that is in the file.
func (c *Config) At(path string) document.Position {
	n := c.root
	if n == nil {
		return document.Position{Source: c.src}
	}
	pos := document.Position{Source: c.src}
	for _, part := range strings.Split(path, ".") {
		if n.Kind == document.ListKind {
			item, inner := stageEntry(n, part)
			if i, err := strconv.Atoi(part); item == nil && err == nil && i >= 0 && i < len(n.Items) {
				item, inner = n.Items[i], n.Items[i]
				if item.Kind == document.MapKind && len(item.Pairs) == 1 {
					inner = item.Pairs[0].Value
				}
			}
			if item == nil {
				return pos
			}
			pos, n = item.Pos, inner
			continue
		}
		e := n.Lookup(part)
		if e == nil {
			return pos
		}
		pos, n = e.Pos, e.Value
		if n.Kind != document.MapKind && n.Kind != document.ListKind {
			pos = n.Pos
		}
	}
	return pos
}

// Errorf returns an error at a path of the configuration (see At). Later steps use it for problems that Parse cannot know, such
// as an unknown stage. WithFix adds what to do.
func (c *Config) Errorf(path, format string, args ...any) *document.Error {
	return document.NewError(c.At(path), format, args...)
}

// CanonicalJSON returns the effective configuration, including defaults and overrides, with sorted option keys. Equal jobs give
// equal bytes.
func (c *Config) CanonicalJSON() ([]byte, error) { return json.Marshal(c) }
