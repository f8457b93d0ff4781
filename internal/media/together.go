package media

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"latentbeam/internal/media/mp4"
	"latentbeam/internal/system"
	"latentbeam/internal/system/process"
)

// errApart says that files must be opened one by one.
var errApart = errors.New("not plain files of the same kind")

// togetherBytes limits the size of the frames of a file that is decoded together with others.
const togetherBytes = 4 << 20

// Together decodes small files with a single ffmpeg, as OpenSource with AsShown would, because starting ffmpeg takes longer
// than decoding them. frames are y4m files in the order of the paths, until release is called. If a file is not a plain mp4, or
// ffmpeg reports anything, Together returns an error; the caller must then open each file separately, which reports the bad
// one.
func Together(ctx context.Context, paths []string) (frames []string, release func(), err error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, nil, &missingError{err}
	}
	dir, err := system.TempDir(system.FFmpeg)
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	inputs, outputs := []string{"-nostdin"}, []string(nil)
	for i, path := range paths {
		to := filepath.Join(dir, strconv.Itoa(i)+extY4M)
		in, out, err := oneOfMany(ctx, path, i, to)
		if err != nil {
			remove()
			return nil, nil, err
		}
		frames = append(frames, to)
		inputs, outputs = append(inputs, in...), append(outputs, out...)
	}
	stderr := &process.Head{Most: maxStderr}
	child, err := process.Start(ctx, process.Command{Path: program, Args: append(inputs, outputs...), Stderr: stderr, Stall: frameTime,
		AddressSpace: maxMemory})
	if err == nil {
		err = child.Wait()
	}
	if said := stderr.String(); err == nil && said != "" {
		err = errors.New(lastOf(said))
	}
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("ffmpeg: %w", err)
	}
	return frames, remove, nil
}

// oneOfMany returns the arguments with which ffmpeg reads and writes file number i.
func oneOfMany(ctx context.Context, path string, i int, to string) (in, out []string, err error) {
	look, err := LookAt(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	t, err := mp4.ReadTimeline(path)
	if err != nil {
		return nil, nil, err
	}
	const block = 64 // decoders round sides up
	pixels := (t.Width + block) * (t.Height + block)
	if look.format != otherFormat || look.interlaced || look.transfer != "" || len(t.Times) == 0 ||
		int64(len(t.Times))*int64(pixels)*rgbBytes > togetherBytes {
		return nil, nil, errApart
	}
	args := readArgs(path, SourceOptions{AsShown: true}, look)[1:] // all except -nostdin
	at := slices.Index(args, "-i")
	in = append(args[:at:at], "-threads", "1", "-max_pixels", strconv.Itoa(pixels), "-i", args[at+1])
	out = slices.Clone(args[at+2 : len(args)-1])
	out[slices.Index(out, "-map")+1] = fmt.Sprintf("%d:v:0", i)
	return in, append(out, to), nil
}
