package score

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/schemas"
	towers "latentbeam/stages/clip"
	"latentbeam/stages/raft"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights"
)

// The names of VBench's dimensions, of text_similarity (clip_score in VBench's competitions), and of the flow that measures
// motion.
const (
	flickeringName = "temporal_flickering"
	subjectName    = "subject_consistency"
	backgroundName = "background_consistency"
	aestheticName  = "aesthetic_quality"
	similarityName = "text_similarity"
	appearanceName = "appearance_style"
	dynamicName    = "dynamic_degree"
	flowName       = "flow_magnitude"
	imagingName    = "imaging_quality"
	smoothnessName = "motion_smoothness"
)

// styleColumn is the column of the prompt table with which appearance_style compares frames.
const styleColumn = "style"

// dinoSide is the shorter side of frames for DINO.
const dinoSide = 224

// flickering is the mean absolute difference between adjacent frames.
type flickering struct {
	past   []byte
	sum, n int64
}

func (s *flickering) add(f frame) {
	if s.past != nil {
		s.sum += distance(f.rgb, s.past)
		s.n += int64(len(f.rgb))
	}
	s.past = append(s.past[:0], f.rgb...)
}

func (s *flickering) read(into map[string]string) {
	if s.n > 0 {
		into[flickeringName] = precise((255 - float64(s.sum)/float64(s.n)) / 255)
	}
}

// noReadings is the meter for a clip that a measure does not apply to.
type noReadings struct{}

func (noReadings) add(frame)              {}
func (noReadings) read(map[string]string) {}

// interpolated prepares frames of a clip for a tower as VBench does: interpolated without antialiasing, and normalised unless
// by is zero.
func interpolated(c clip, f resize.Filter, to resize.Size, part resize.Rect, by normalized) (func(dst []float32, f frame), error) {
	r, err := resize.NewInterpolator(f, resize.Size{Width: c.width, Height: c.height}, to, part)
	if err != nil {
		return nil, err
	}
	return func(dst []float32, f frame) {
		r.Interpolate(dst, f.rgb)
		if by != (normalized{}) {
			by.pixels(dst)
		}
	}, nil
}

func openSubject(o *options) (*opened, error) {
	dino, err := openDINO(o)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		if c.frames < 2 {
			return plainMeter{noReadings{}}, nil
		}
		net, err := dino.On(dev)
		if err != nil {
			return nil, err
		}
		to := shorter(c.height, c.width, dinoSide)
		read, err := interpolated(c, resize.Bilinear, to, resize.Rect{Width: to.Width, Height: to.Height}, byImageNet)
		if err != nil {
			return nil, err
		}
		return c.featureMeter(dinoB16, c.allFrames(), func() *features {
			return &features{dev: dev, read: read, size: 3 * to.Width * to.Height, tower: func(pixels []float32, _ int) (kernels.Tensor, error) {
				return net.Encode(dev, pixels, to.Height, to.Width)
			}}
		}, func(_ context.Context, all [][]float32, into map[string]string) error {
			into[subjectName] = precise(consistency(all))
			return nil
		}), nil
	}
	return &opened{weights: dino.Digest(), begin: begin, load: dino.Load, rehearse: func(row *schemas.PromptRow) (r rehearsal, known bool) {
		net, err := vit.Load(dino.Config, weights.ShapesOnly())
		if err != nil || row.Height < 1 || row.Width < 1 || row.NumFrames < 2 {
			return r, false
		}
		to := shorter(row.Height, row.Width, dinoSide)
		return rehearsal{of: dinoB16, at: to, times: batches(row.NumFrames), run: func(be kernels.Backend) error {
			_, err := net.Encode(be, make([]float32, batchFrames*3*to.Width*to.Height), to.Height, to.Width)
			return err
		}}, true
	}}, nil
}

// clipTower applies a CLIP to clips.
type clipTower struct {
	*weights.Component[towers.PairConfig, towers.Pair]
	name string
}

func newCLIPTower(o *options, name string) (*clipTower, error) {
	c, err := openCLIP(o, name)
	if err != nil {
		return nil, err
	}
	return &clipTower{c, name}, nil
}

// rehearse returns the work for a batch of frames of a clip (0: all) and a text.
func (s *clipTower) rehearse(frames int) func(row *schemas.PromptRow) (rehearsal, bool) {
	return func(row *schemas.PromptRow) (r rehearsal, known bool) {
		net, err := towers.LoadPair(s.Config, weights.ShapesOnly())
		n := row.NumFrames
		if err != nil || n < 1 {
			return r, false
		}
		if frames > 0 {
			n = frames
		}
		side := s.Config.Vision.ImageSize
		return rehearsal{of: s.name, at: resize.Size{Width: side, Height: side}, times: batches(n), run: func(be kernels.Backend) error {
			func() {
				defer be.Scope()()
				net.Images(be, make([]float32, batchFrames*3*side*side))
			}()
			net.Text(be, make([]int32, s.Config.Text.Positions))
			return nil
		}}, true
	}
}

// featureMeter returns a meter for the embeddings of frames. read prepares a frame; nil: interpolated, as VBench does for most
// measures.
func (s *clipTower) featureMeter(dev kernels.Backend, c clip, name string, frames []int, read func(dst []float32, f frame),
	number func(ctx context.Context, all [][]float32, into map[string]string) error) (meter, error) {
	net, err := s.On(dev)
	if err != nil {
		return nil, err
	}
	side := s.Config.Vision.ImageSize
	if read == nil {
		to := shorter(c.height, c.width, side)
		if read, err = interpolated(c, resize.Bicubic, to, middle(to, side), byCLIP); err != nil {
			return nil, err
		}
	}
	return c.featureMeter(name, frames, func() *features {
		return &features{dev: dev, read: read, size: 3 * side * side, tower: func(pixels []float32, _ int) (kernels.Tensor, error) {
			return net.Images(dev, pixels), nil
		}}
	}, number), nil
}

// text returns the embedding of a text.
func (s *clipTower) text(dev kernels.Backend, text string) ([]float32, error) {
	net, err := s.On(dev)
	if err != nil {
		return nil, err
	}
	defer dev.Scope()()
	out := make([]float32, s.Config.Projection)
	return out, dev.Download(out, net.Text(dev, towers.Tokenize(text)))
}

func openBackground(o *options) (*opened, error) {
	s, err := newCLIPTower(o, clipB32)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		if c.frames < 2 {
			return plainMeter{noReadings{}}, nil
		}
		return s.featureMeter(dev, c, clipB32, c.allFrames(), nil, func(_ context.Context, all [][]float32, into map[string]string) error {
			into[backgroundName] = precise(consistency(all))
			return nil
		})
	}
	return &opened{weights: s.Digest(), begin: begin, load: s.Load, rehearse: s.rehearse(0)}, nil
}

func openAesthetic(o *options) (*opened, error) {
	s, err := newCLIPTower(o, clipL14)
	if err != nil {
		return nil, err
	}
	h, err := openHead(o)
	if err != nil {
		return nil, err
	}
	if width := h.Config.Width; width != s.Config.Projection {
		return nil, wrongWeights(aestheticHead, fmt.Errorf("the head takes %d numbers, %s gives %d", width, clipL14, s.Config.Projection))
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		weight, bias, err := headOn(dev, h)
		if err != nil {
			return nil, err
		}
		return s.featureMeter(dev, c, clipL14, c.allFrames(), nil, func(_ context.Context, all [][]float32, into map[string]string) error {
			sum := 0.0
			for _, f := range all {
				sum += cosine(f, weight)*length(weight) + bias
			}
			const scale = 10 // as in LAION's predictor
			into[aestheticName] = precise(sum / float64(len(all)) / scale)
			return nil
		})
	}
	load := func(dev kernels.Backend) error {
		if err := s.Load(dev); err != nil {
			return err
		}
		return h.Load(dev)
	}
	return &opened{weights: s.Digest() + " " + h.Digest(), begin: begin, load: load, rehearse: s.rehearse(0)}, nil
}

// headOn downloads the numbers of a linear head.
func headOn(dev kernels.Backend, c *weights.Component[headConfig, head]) (weight []float32, bias float64, err error) {
	h, err := c.On(dev)
	if err != nil {
		return nil, 0, err
	}
	weight = make([]float32, c.Config.Width)
	one := make([]float32, 1)
	if err := dev.Download(weight, h.weight); err != nil {
		return nil, 0, err
	}
	err = dev.Download(one, h.bias)
	return weight, float64(one[0]), err
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	return math.Sqrt(sum)
}

// similarityFrames is the number of frames that text_similarity compares with the prompt.
const similarityFrames = 8

func openSimilarity(o *options) (*opened, error) {
	s, err := newCLIPTower(o, clipB32)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		if c.row.Prompt == "" {
			return plainMeter{noReadings{}}, nil
		}
		side := s.Config.Vision.ImageSize
		to := shorter(c.height, c.width, side)
		plain, err := interpolated(c, resize.Bicubic, to, middle(to, side), normalized{})
		if err != nil {
			return nil, err
		}
		read := func(dst []float32, f frame) { // these frames are bytes, and stay bytes after interpolation
			plain(dst, f)
			for i, v := range dst {
				dst[i] = float32(math.RoundToEven(float64(min(max(v, 0), 255))))
			}
			byCLIP.pixels(dst)
		}
		return s.featureMeter(dev, c, clipB32+" of bytes", c.middleFrames(similarityFrames), read, s.compare(dev, c.row.Prompt, similarityName, 1))
	}
	return &opened{weights: s.Digest(), begin: begin, load: s.Load, rehearse: s.rehearse(similarityFrames)}, nil
}

// compare returns a function that reads how similar frames are to a text: the mean cosine of their embeddings, times a factor.
func (s *clipTower) compare(dev kernels.Backend, text, name string, factor float64) func(context.Context, [][]float32, map[string]string) error {
	return func(_ context.Context, all [][]float32, into map[string]string) error {
		of, err := s.text(dev, text)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, f := range all {
			sum += cosine(f, of)
		}
		into[name] = precise(factor * sum / float64(len(all)))
		return nil
	}
}

func openAppearance(o *options) (*opened, error) {
	s, err := newCLIPTower(o, clipB32)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		style, err := column(c.row, styleColumn)
		if err != nil {
			return nil, err
		}
		if style == "" {
			return plainMeter{noReadings{}}, nil
		}
		net, err := s.On(dev)
		if err != nil {
			return nil, err
		}
		scale, err := net.Scale(dev)
		if err != nil {
			return nil, err
		}
		side := s.Config.Vision.ImageSize
		to := shorter(c.height, c.width, side)
		r, err := resize.New(resize.Bicubic, resize.Size{Width: c.width, Height: c.height}, to, middle(to, side))
		if err != nil {
			return nil, err
		}
		small := make([]byte, 3*side*side)
		read := func(dst []float32, f frame) { // as Pillow resizes
			r.Resize(small, f.rgb)
			for i, v := range small {
				dst[i] = float32(v)
			}
			byCLIP.pixels(dst)
		}
		const percent = 100
		return s.featureMeter(dev, c, clipB32+" by Pillow", c.allFrames(), read, s.compare(dev, style, appearanceName, scale/percent))
	}
	return &opened{weights: s.Digest(), begin: begin, load: s.Load, rehearse: s.rehearse(0)}, nil
}

// column returns the text of a row's carried column, "" if there is none.
func column(row *schemas.PromptRow, name string) (string, error) {
	all, err := schemas.Carried(row.Extra)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(all, func(c schemas.CarriedColumn) bool { return c.Name == name }); i >= 0 {
		return all[i].Text(), nil
	}
	return "", nil
}

// dynamic measures the flow between frames, about eight pairs a second.
type dynamic struct {
	dev         kernels.Backend
	net         *raft.RAFT
	every, next int
	past        *raft.Image
	side, seen  int
	flows       []float64 // mean of the largest twentieth, for each pair
}

// flowIterations is the number of RAFT's refinements.
const flowIterations = 20

func openDynamic(o *options) (*opened, error) {
	net, err := openRAFT(o)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		if height, width := raft.Padded(c.height, c.width); c.frames < 2 || min(height, width) < raft.MinSide {
			return plainMeter{noReadings{}}, nil
		}
		on, err := net.On(dev)
		if err != nil {
			return nil, err
		}
		return &dynamic{dev: dev, net: on, every: everyFrame(c.fps), side: min(c.height, c.width)}, nil
	}
	return &opened{weights: net.Digest(), begin: begin, load: net.Load, rehearse: func(row *schemas.PromptRow) (r rehearsal, known bool) {
		shapes, err := raft.Load(raft.Config{}, weights.ShapesOnly())
		height, width := raft.Padded(row.Height, row.Width)
		if err != nil || min(height, width) < raft.MinSide || row.NumFrames < 2 {
			return r, false
		}
		pairs := (row.NumFrames - 1) / everyFrame(row.FPS)
		return rehearsal{of: raftThings, at: resize.Size{Width: width, Height: height}, times: float64(pairs), host: raft.HostBytes(height, width),
			run: func(be kernels.Backend) error { return shapes.Rehearse(be, height, width, flowIterations) }}, true
	}}, nil
}

// everyFrame returns the distance of the frames between which the flow is computed: about eight frames a second.
func everyFrame(fps float64) int { return max(1, int(math.RoundToEven(fps/8))) }

func (m *dynamic) add(ctx context.Context, f frame) error {
	m.next++
	if (m.next-1)%m.every != 0 {
		return nil
	}
	m.seen++
	now, err := m.net.Prepare(m.dev, f.rgb, f.height, f.width)
	if err != nil {
		return err
	}
	past := m.past
	m.past = now
	if past == nil {
		return nil
	}
	flow, err := m.net.Flow(ctx, m.dev, past, now, flowIterations)
	if err != nil {
		return err
	}
	m.flows = append(m.flows, fastest(flow))
	return nil
}

// fastest returns the mean length of the longest twentieth of a flow.
func fastest(flow []float32) float64 {
	lengths := make([]float32, len(flow)/2)
	for i := range lengths {
		u, v := flow[2*i], flow[2*i+1]
		lengths[i] = float32(math.Sqrt(float64(float32(u*u) + float32(v*v))))
	}
	slices.Sort(lengths)
	some := lengths[len(lengths)-int(float64(len(lengths))*0.05):]
	sum := 0.0
	for _, l := range some {
		sum += float64(l)
	}
	return sum / float64(len(some))
}

func (m *dynamic) read(_ context.Context, into map[string]string) error {
	if len(m.flows) == 0 {
		return nil
	}
	const perSide = 6.0 / 256
	threshold := perSide * float64(m.side)
	enough := int(math.RoundToEven(4 * (float64(m.seen) / 16)))
	fast, sum := 0, 0.0
	for _, f := range m.flows {
		sum += f
		if f > threshold {
			fast++
		}
	}
	moves := 0
	if fast >= enough {
		moves = 1
	}
	into[dynamicName] = strconv.Itoa(moves)
	into[flowName] = precise(sum / float64(len(m.flows)))
	return nil
}
