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
	Version int    `yaml:"version" json:"version"`         // of this format: 1
	Preset  string `yaml:"preset" json:"preset,omitempty"` // a published configuration; the rest of the file stands above it
	// where the weights are: a name or directory that holds all components, or a path for each
	Model Model `yaml:"model" json:"model"`
	// the rows that the job starts from: one of prompts, media, videos, embeddings and latents
	Input Input `yaml:"input" json:"input"`
	// what holds for rows that do not say it; without it the model's own default holds
	Defaults Defaults `yaml:"defaults" json:"defaults"`
	Stages   Stages   `yaml:"stages" json:"stages"` // names of stages, or maps of a name to its options, in order
	// which rows tables mark as selected: the best of those that belong together
	Select       Select    `yaml:"select" json:"select,omitzero"`
	Output       Output    `yaml:"output" json:"output"`               // where results go, and which
	Runner       Runner    `yaml:"runner" json:"runner"`               // the Beam runner that executes the job: a name, or a map
	Resources    Resources `yaml:"resources" json:"resources"`         // what the job takes of the machine
	OnError      OnError   `yaml:"on_error" json:"on_error"`           // how much failure the job takes
	DrainTimeout Duration  `yaml:"drain_timeout" json:"drain_timeout"` // for what is at work when the job is told to stop
	// RequireLicence lists the licences that the weights of the model may have, such as [apache-2.0, mit]: a job whose weights have another
	// one is refused before anything is computed. "unknown" in the list lets weights and programs pass whose files name none.
	RequireLicence StringList `yaml:"require_licence" json:"require_licence,omitempty"`
	// OnComplete are commands and URLs that are told when the job is complete. They are in no summary and in no key: a URL
	// may hold a secret.
	OnComplete StringList `yaml:"on_complete" json:"-"`

	src  *document.Text
	root *document.Node
	// Extra are stages behind those of the file, which a verb adds.
	Extra Stages   `yaml:"-" json:"-"`
	later []string // sets of stages that the file does not list; Complete applies them
}

// Model says where the weights are: a name or directory that holds all components, or a directory for each.
type Model struct {
	Path         string `yaml:"path" json:"path,omitempty"`                   // "tiny", a directory, or OWNER/NAME of a hub
	TextEncoder  string `yaml:"text_encoder" json:"text_encoder,omitempty"`   // a single component: a directory, or a file of weights
	Transformer  string `yaml:"transformer" json:"transformer,omitempty"`     // the denoiser, as text_encoder
	Transformer2 string `yaml:"transformer_2" json:"transformer_2,omitempty"` // the second of two denoisers, for little noise
	ImageEncoder string `yaml:"image_encoder" json:"image_encoder,omitempty"` // CLIP's vision encoder, for image to video of Wan 2.1
	VAE          string `yaml:"vae" json:"vae,omitempty"`                     // the autoencoder, as text_encoder
	// adapters for the denoisers: path, scale (1), expert (both, high or low), unmatched (error or skip)
	Loras []Lora `yaml:"loras" json:"loras,omitempty"`
}

// Lora is an adapter of low rank that is added to the weights of the denoisers.
type Lora struct {
	Path   string   `yaml:"path" json:"path"`     // of a safetensors file, or a directory with one
	Scale  *float64 `yaml:"scale" json:"scale"`   // nil: 1
	Expert string   `yaml:"expert" json:"expert"` // of two denoisers: "both" (also ""), "high" or "low"
	// Unmatched is what becomes of layers that the model does not have: "error" (also "") or "skip".
	Unmatched string `yaml:"unmatched" json:"unmatched,omitempty"`
}

// Input names the rows a job starts from. Exactly one of Prompts, Media, Videos, Embeddings and Latents is given; each
// is a list of paths and glob patterns.
type Input struct {
	Prompts StringList `yaml:"prompts" json:"prompts,omitempty"` // tables: paths, patterns or addresses
	// Media are videos, images and folders of images, tables that name or hold them, tars of WebDataset, and folders with
	// metadata.csv, .jsonl or .parquet.
	Media StringList `yaml:"media" json:"media,omitempty"`
	// Videos are finished videos that are only looked at, as media are named; an output of a job is a folder with a table of them.
	Videos     StringList        `yaml:"videos" json:"videos,omitempty"`
	Embeddings StringList        `yaml:"embeddings" json:"embeddings,omitempty"` // tables of text embeddings of an earlier job
	Latents    StringList        `yaml:"latents" json:"latents,omitempty"`       // tables of latents of an earlier job
	Columns    map[string]string `yaml:"columns" json:"columns,omitempty"`       // our name of a column: its name in the table; "": none is it
	// Carry names columns that are for nothing but to go to the output, or patterns of such names; "*" is all of them. A run
	// warns of other columns that it has no use for.
	Carry  StringList `yaml:"carry" json:"carry,omitempty"`
	Format string     `yaml:"format" json:"format"` // auto, csv, json, jsonl, parquet or txt
	// Delimiter is the character between the columns of csv, or tab; "": comma, semicolon, tab or bar, by the header.
	Delimiter string `yaml:"delimiter" json:"delimiter,omitempty"`
	// Folders says what a folder in media stands for: "" one clip of frames if it holds png and jpeg files alone, else the media in
	// it and below; or clip, always one clip of its png and jpeg files.
	Folders string `yaml:"folders" json:"folders,omitempty"`
	// TXT says which lines of a txt are prompts: "" all but blank ones and comments, which begin with #, or raw, each.
	TXT string `yaml:"txt" json:"txt,omitempty"`

	Buckets Buckets `yaml:"buckets" json:"buckets,omitzero"` // sizes and lengths of clips, chosen for each of the media
	Windows Windows `yaml:"windows" json:"windows,omitzero"` // which frames become clips
	// Resize is the filter of frames, as Pillow has it: area, bilinear, bicubic (the default of jobs that cut) or lanczos.
	Resize string `yaml:"resize" json:"resize,omitempty"`
	// Crop says which part of a frame is kept: center (the default), random, or pad, which keeps all and adds borders.
	Crop string `yaml:"crop" json:"crop,omitempty"`
	Flip bool   `yaml:"flip" json:"flip,omitempty"` // every clip also makes a mirrored one
	// NullCaption makes every clip also a row without a caption, for training without guidance.
	NullCaption bool `yaml:"null_caption" json:"null_caption,omitempty"`

	// DecodeErrors says what becomes of media and references with errors in frames that are used: fail (also ""), or keep, with the
	// reading decode_errors.
	DecodeErrors string `yaml:"decode_errors" json:"decode_errors,omitempty"`
	// HDR says what becomes of video of high dynamic range (PQ, HLG): keep (also "") takes its values as they are, with the reading
	// transfer, tonemap makes it standard, and fail refuses it.
	HDR string `yaml:"hdr" json:"hdr,omitempty"`
}

// Select marks the best rows of a group.
type Select struct {
	Best int    `yaml:"best" json:"best"` // how many of each group
	Of   string `yaml:"of" json:"of"`     // what a group has in common: prompt, id or a carried column
	By   string `yaml:"by" json:"by"`     // a reading or a carried column, the highest first; with - before it the lowest
}

// The kinds of rows that a job can start from, as Input.Source returns them.
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

// Defaults are the parameters of rows that do not say them. Zero and nil mean that the model's own default
// holds.
type Defaults struct {
	Height      int     `yaml:"height" json:"height,omitempty"`             // pixels
	Width       int     `yaml:"width" json:"width,omitempty"`               // pixels
	Resolution  Name    `yaml:"resolution" json:"resolution,omitempty"`     // "720p", in place of the sides
	AspectRatio Name    `yaml:"aspect_ratio" json:"aspect_ratio,omitempty"` // "16:9", width:height; of Open-Sora "9:16", height:width
	NumFrames   Length  `yaml:"num_frames" json:"num_frames,omitempty"`     // 51, or "2s"
	FPS         float64 `yaml:"fps" json:"fps,omitempty"`                   // frames a second
	// of the job; rows derive theirs from it
	Seed              *int64 `yaml:"seed" json:"seed,omitempty"`
	NumInferenceSteps int    `yaml:"num_inference_steps" json:"num_inference_steps,omitempty"` // steps of the sampler
	// of classifier-free guidance; 1 is none
	GuidanceScale     *float64 `yaml:"guidance_scale" json:"guidance_scale,omitempty"`
	NegativePrompt    string   `yaml:"negative_prompt" json:"negative_prompt,omitempty"`         // what guidance leads away from
	MaxSequenceLength int      `yaml:"max_sequence_length" json:"max_sequence_length,omitempty"` // tokens
	// videos of a row, with seeds of their own
	NumVideosPerPrompt int `yaml:"num_videos_per_prompt" json:"num_videos_per_prompt,omitempty"`

	// scores that stand behind every prompt: a number, or none
	Aes          Name `yaml:"aes" json:"aes,omitempty"`
	Flow         Name `yaml:"flow" json:"flow,omitempty"`                   // as aes
	CameraMotion Name `yaml:"camera_motion" json:"camera_motion,omitempty"` // as aes: a word
	// images or videos to condition on: paths, ";" between them
	Reference string `yaml:"reference" json:"reference,omitempty"`
	// which latent frames of the references go where
	MaskStrategy Name `yaml:"mask_strategy" json:"mask_strategy,omitempty"`
	Loop         int  `yaml:"loop" json:"loop,omitempty"` // clips of a video
	// latent frames that the next clip goes on from
	ConditionFrameLength int `yaml:"condition_frame_length" json:"condition_frame_length,omitempty"`
	// by how much they are noised again: 0 to 1
	ConditionFrameEdit *float64 `yaml:"condition_frame_edit" json:"condition_frame_edit,omitempty"`
	GuidanceScale2     *float64 `yaml:"guidance_scale_2" json:"guidance_scale_2,omitempty"` // of the second denoiser
	Noise              string   `yaml:"noise" json:"noise,omitempty"`                       // path of the initial noise
}

// Row is the defaults as the row that schemas.PromptRow.WithDefaults takes. The seed stays out of it.
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

// Output says where results go and which.
type Output struct {
	// a directory, or gs://BUCKET/PREFIX, s3://BUCKET/PREFIX; {date} is today's
	Path        string     `yaml:"path" json:"path"`
	Write       StringList `yaml:"write" json:"write"`                           // of video, latents, embeddings
	RowsPerFile int        `yaml:"rows_per_file" json:"rows_per_file,omitempty"` // rows of a file of a table
	// Timezone is that of {date} and {hour} in Path, such as Europe/Berlin; "" is UTC. Where an hour comes twice, at the end of summer
	// time, {hour} of the second one has its distance to UTC: 02+0100.
	Timezone string `yaml:"timezone" json:"timezone,omitempty"`
	// Name is a template over columns, such as "{id}-{seed}", by which videos also stand in names/; "": they do not.
	Name string `yaml:"name" json:"name,omitempty"`
	// Where chooses the videos that get such names, by an expression over the columns of their table; "": all.
	Where string `yaml:"where" json:"where,omitempty"`
	// Scores is the form of scores.json, which has the readings of all videos: vbench; "": there is none.
	Scores string `yaml:"scores" json:"scores,omitempty"`
	// Verify says how a run looks at the videos of earlier runs: "size" (also ""), or "digest", which reads them all.
	// A video that was written since it was read last is always read.
	Verify string `yaml:"verify" json:"verify,omitempty"`
	// UnsafeStore lets one run write to a bucket that does not keep what jobs rely on, without protection from a second run.
	UnsafeStore bool `yaml:"unsafe_store" json:"unsafe_store,omitempty"`
}

// The values of Output.Verify.
const (
	VerifySize   = "size"
	VerifyDigest = "digest"
)

// ScoresVBench is the value of Output.Scores for the form of VBench's results.
const ScoresVBench = "vbench"

// Writes tells whether the output has the named part: "video", "latents" or "embeddings".
func (o Output) Writes(part string) bool { return slices.Contains(o.Write, part) }

// Runner is the Beam runner that executes the job. Which of its keys a runner takes is that runner's matter.
type Runner struct {
	Name string `yaml:"name" json:"name"` // local, flink, spark, dataflow or prism
	// Endpoint is the address (host:port) of the engine's job server.
	Endpoint string `yaml:"endpoint" json:"endpoint,omitempty"`
	// Parallelism is how many slots of the engine the job uses; 0: those of one worker.
	Parallelism int `yaml:"parallelism" json:"parallelism,omitempty"`
	// Waves is how many bundles every slot works off, one after the other; 0: as many as balance hosts of unequal speed.
	Waves int `yaml:"waves" json:"waves,omitempty"`
	// Environment is how a worker is started: "process" (also ""), "external" or "loopback".
	Environment string `yaml:"environment" json:"environment,omitempty"`
	// Command is the program that is a worker, on every host; "": the path of this program.
	Command string `yaml:"command" json:"command,omitempty"`
	// Pool is the address (host:port) of `latentbeam worker --pool` as the engine reaches it, where Environment is
	// "external".
	Pool string `yaml:"pool" json:"pool,omitempty"`
	// Options are those of the engine, by their names without "beam:option:".
	Options Values `yaml:"options" json:"options,omitempty"`
	// Project is the one of Google Cloud that pays for the workers.
	Project string `yaml:"project" json:"project,omitempty"`
	// Region is where the workers run, such as europe-west4.
	Region string `yaml:"region" json:"region,omitempty"`
	// Staging is a prefix in a bucket (gs://BUCKET/PREFIX) for the program, the pipeline and temporary files of the engine.
	Staging string `yaml:"staging" json:"staging,omitempty"`
	// Image is the container image of the workers. It holds the program or Beam's boot program, and local models.
	Image string `yaml:"image" json:"image,omitempty"`
	// MachineType is that of a worker, such as g2-standard-8; "": the engine's default.
	MachineType string `yaml:"machine_type" json:"machine_type,omitempty"`
	// Accelerator is the GPU of a worker, such as nvidia-l4, or nvidia-l4:2 for two; "": none.
	Accelerator string `yaml:"accelerator" json:"accelerator,omitempty"`
	// MaxWorkers is how many machines the engine may start; 0: as many as it likes.
	MaxWorkers int `yaml:"max_workers" json:"max_workers,omitempty"`
	// Binary is the program that is staged for an image with Beam's boot program; "": this program.
	Binary string `yaml:"binary" json:"binary,omitempty"`
}

// RunnerKeys lists the keys of the runner that the file or a flag gives, but for the name, in order.
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

// Values are options that only another program understands, as encoding/json would decode them.
type Values map[string]any

func (v *Values) fromNode(n *document.Node) (wanted string, ok bool) {
	const form = "a map of keys and values"
	if n.Kind != document.MapKind {
		return form, false
	}
	*v = plain(n).(map[string]any)
	return form, true
}

// Resources bound what the job takes of the machine.
type Resources struct {
	// Device is what the job computes on: "cpu", "gpu", or "auto" (also ""), the GPUs of this host where there
	// are any.
	Device string `yaml:"device" json:"device,omitempty"`
	// Class is the numeric class in which the job computes, such as "cpu/avx2", "cpu/go" or "cuda/sm_90": rows of another one
	// have other last bits, and other keys. "auto" (also "") is that of the rows that the output has, where this host can
	// compute it, and else the best of the devices.
	Class string `yaml:"class" json:"class,omitempty"`
	// Workers of this process; on GPUs, how many of them, all where it is not given.
	Workers   int             `yaml:"workers" json:"workers"`
	Threads   int             `yaml:"threads" json:"threads,omitempty"` // of all workers together; 0 is every core
	Memory    ByteSize        `yaml:"memory" json:"memory"`             // for batches, of each worker
	BatchSize schemas.AutoInt `yaml:"batch_size" json:"batch_size"`     // upper bound; auto is what the memory allows

	// Hosts are the addresses (host:port) of `latentbeam worker` processes, which know the token in TokenFile.
	Hosts     StringList `yaml:"hosts" json:"hosts,omitempty"`
	TokenFile string     `yaml:"token_file" json:"token_file,omitempty"`
	// CheckpointInterval is the work after which the steps of long samplings are saved, so that a kill costs no more.
	CheckpointInterval Interval `yaml:"checkpoint_interval" json:"checkpoint_interval,omitempty"`
	// NCCL is whether GPUs of several hosts exchange by it: "auto" (also ""), where all of a set have it, or
	// "off". It does not encrypt; TCP does.
	NCCL string `yaml:"nccl" json:"nccl,omitempty"`
}

// OnError says how much failure a job takes.
type OnError struct {
	StopAfter Tolerance `yaml:"stop_after" json:"stop_after"` // so much failure ends the job: a part ("5%", 0.05) or a number of rows (20)
	MinRows   int       `yaml:"min_rows" json:"min_rows"`     // rows seen before a part of them can stop the job
	Retries   int       `yaml:"retries" json:"retries"`       // tries more, of what the world is to blame for
}

// Stop tells whether failed of seen rows are too many: more than StopAfter, a part only after MinRows.
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

// Parse reads the text of a file and applies sets, each "key=value" as --set takes it. name stands for the file in messages.
// The error is an *Error.
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
	later := func(set string) bool { return strings.HasPrefix(set, "stages.") } // a preset may bring the stages
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
			c.later = append(c.later, set)
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

// At finds the place of a dotted path such as "defaults.height" or "stages.denoise.sequence_parallel"; a
// stage is found by name or by number from 0. Where the path is not in the file it is the nearest thing
// around it.
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

// Errorf reports a problem at a path of the configuration (see At) that only a later step can see, such as an
// unknown stage. WithFix adds what to do.
func (c *Config) Errorf(path, format string, args ...any) *document.Error {
	return document.NewError(c.At(path), format, args...)
}

// CanonicalJSON is the effective configuration, defaults and overrides included, with sorted option keys:
// equal jobs have equal bytes.
func (c *Config) CanonicalJSON() ([]byte, error) { return json.Marshal(c) }
