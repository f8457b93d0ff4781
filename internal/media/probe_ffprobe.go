package media

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/media/mp4"
	"latentbeam/internal/system/process"
)

// probed is ffprobe's output.
type probed struct {
	Streams []struct {
		streamFacts
		Rate string `json:"avg_frame_rate"`
	}
	Packets []struct {
		Time     string `json:"pts_time"`
		Duration string `json:"duration_time"`
		Flags    string
	}
	Format struct {
		Name string `json:"format_name"`
	}
}

// maxProbe limits ffprobe's output in bytes.
const maxProbe = 256 << 20

// seekable are the containers with an index of keyframes.
var seekable = []string{"mov", "matroska"}

// ffprobe reads the packets of a file's first video stream.
func ffprobe(ctx context.Context, path string) (*timeline, error) {
	program, err := exec.LookPath("ffprobe")
	if err != nil {
		return nil, fmt.Errorf("%s files need ffprobe, which is not there (%w): install ffmpeg (apt install ffmpeg), "+
			"or convert the file to mp4, y4m or a folder of png images", cmp.Or(filepath.Ext(path), "such"), err)
	}
	args := append(slices.Clone(confined), "-select_streams", "v:0", "-show_entries",
		"stream=width,height,avg_frame_rate:stream_side_data=rotation:packet=pts_time,duration_time,flags:format=format_name",
		"-of", "json", "file:"+path)
	stderr := &process.Head{Most: 4 * maxStderr}
	out, err := process.Output(ctx, process.Command{Path: program, Args: args, Stderr: stderr, Stall: frameTime,
		AddressSpace: maxMemory}, maxProbe)
	if errors.Is(err, process.ErrStalled) {
		return nil, fmt.Errorf("ffprobe: %w", err)
	}
	if err != nil {
		return nil, lastOutput("ffprobe", stderr.String(), err)
	}
	t, err := readProbe(out)
	if err != nil {
		return nil, lastOutput("ffprobe", stderr.String(), err)
	}
	return t, nil
}

// readProbe parses ffprobe's output for a file.
func readProbe(text []byte) (*timeline, error) {
	var p probed
	if err := json.Unmarshal(text, &p); err != nil || len(p.Streams) == 0 {
		return nil, errors.New("the file has no video")
	}
	return p.timeline()
}

// timeline sorts the packets by their display times.
func (p *probed) timeline() (*timeline, error) {
	s := p.Streams[0]
	t := &timeline{Timeline: mp4.Timeline{Width: s.Width, Height: s.Height}, noSeek: true}
	if s.turnedByAQuarter() {
		t.Width, t.Height = s.Height, s.Width
	}
	for _, name := range seekable {
		t.noSeek = t.noSeek && !slices.Contains(strings.Split(p.Format.Name, ","), name)
	}
	last := int64(0)
	for _, packet := range p.Packets {
		at, err := strconv.ParseFloat(packet.Time, 64)
		if err != nil || strings.Contains(packet.Flags, "D") { // not shown
			continue
		}
		us := microseconds(at)
		t.Times = append(t.Times, us)
		if strings.HasPrefix(packet.Flags, "K") {
			t.Keys = append(t.Keys, us)
		}
		if d, err := strconv.ParseFloat(packet.Duration, 64); err == nil && us >= t.End {
			last = microseconds(d)
		}
		t.End = max(t.End, us)
	}
	if len(t.Times) == 0 {
		return nil, errors.New("ffprobe: no frame of the file has a display time")
	}
	slices.Sort(t.Times)
	slices.Sort(t.Keys)
	if last == 0 { // use the mean duration, as decoders do
		var num, den float64
		if _, err := fmt.Sscanf(s.Rate, "%f/%f", &num, &den); err == nil && num > 0 {
			last = microseconds(den / num)
		}
	}
	t.End += last
	return t, nil
}

// microseconds rounds a time, and limits impossible values to prevent overflows.
func microseconds(seconds float64) int64 {
	const beyond = 2 * longest
	if !(math.Abs(seconds*1e6) < beyond) {
		return beyond
	}
	return int64(math.Round(seconds * 1e6))
}
