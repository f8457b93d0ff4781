package mp4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/internal/system"
)

// ErrNotPlain says that a file is not a plain mp4 that this package reads.
var ErrNotPlain = errors.New("not a plain mp4 file")

// maxMoov limits the header of an mp4 file, in bytes.
const maxMoov = 64 << 20

// Timeline has the display times of a file's frames, on the file's clock.
type Timeline struct {
	Width, Height int
	Times         []int64 // of the frames in display order, in microseconds
	Keys          []int64 // times of the keyframes
	End           int64   // end of the last frame
}

// ReadTimeline reads the timeline of an mp4 or mov file with one header and at most one edit, according to ISO/IEC 14496-12.
// Any other file is ErrNotPlain.
func ReadTimeline(path string) (t *Timeline, err error) {
	file, err := system.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := findMoov(file, info.Size())
	if err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // tables of a damaged file
			t, err = nil, ErrNotPlain
		}
	}()
	box, err := mp4.DecodeBox(0, bytes.NewReader(data))
	moov, ok := box.(*mp4.MoovBox)
	if err != nil || !ok || moov.Mvex != nil {
		return nil, ErrNotPlain
	}
	for i, trak := range moov.Traks {
		if trak.Mdia == nil || trak.Mdia.Hdlr == nil || trak.Mdia.Hdlr.HandlerType != "vide" {
			continue
		}
		t, err := trackTimeline(moov, trak)
		if err != nil {
			return nil, err
		}
		return t, t.swapSides(inside(inside(data, "trak", i), "tkhd", 0))
	}
	return nil, ErrNotPlain
}

// inside returns the n-th box of a kind inside a box, with its header; nil if there is none.
func inside(box []byte, kind string, n int) []byte {
	for rest := box[min(len(box), 8):]; len(rest) >= 8; {
		size := int(binary.BigEndian.Uint32(rest))
		if size < 8 || size > len(rest) {
			return nil
		}
		if string(rest[4:8]) == kind {
			if n == 0 {
				return rest[:size]
			}
			n--
		}
		rest = rest[size:]
	}
	return nil
}

// swapSides swaps the sides of a track that is displayed rotated by 90 degrees, according to its header's matrix.
func (t *Timeline) swapSides(tkhd []byte) error {
	const matrix0, matrix1 = 8 + 40, 8 + 52 // position of the matrix in versions 0 and 1
	at := matrix0
	if len(tkhd) > 8 && tkhd[8] == 1 {
		at = matrix1
	}
	if len(tkhd) < at+36 {
		return ErrNotPlain
	}
	m := func(i int) uint32 { return binary.BigEndian.Uint32(tkhd[at+4*i:]) }
	switch {
	case m(1) == 0 && m(3) == 0:
	case m(0) == 0 && m(4) == 0:
		t.Width, t.Height = t.Height, t.Width
	default:
		return ErrNotPlain
	}
	return nil
}

// findMoov reads the movie header at any position. A fragmented file is not plain.
func findMoov(file io.ReaderAt, length int64) ([]byte, error) {
	var head [16]byte
	for at := int64(0); at < length; {
		if _, err := file.ReadAt(head[:], at); err != nil {
			return nil, ErrNotPlain
		}
		size, kind := int64(binary.BigEndian.Uint32(head[:])), string(head[4:8])
		if size == 1 {
			size = int64(binary.BigEndian.Uint64(head[8:]))
		}
		known := kind == "ftyp" || kind == "moov" || kind == "wide" || kind == "free" || kind == "skip" || kind == "mdat"
		if size < 8 || size > length-at || at == 0 && !known || kind == "moof" || kind == "moov" && size > maxMoov {
			return nil, ErrNotPlain
		}
		if kind == "moov" {
			data := make([]byte, size)
			_, err := file.ReadAt(data, at)
			return data, err
		}
		at += size
	}
	return nil, ErrNotPlain
}

// trackTimeline reads the tables of a video track.
func trackTimeline(moov *mp4.MoovBox, trak *mp4.TrakBox) (*Timeline, error) {
	stbl, scale := trak.Mdia.Minf.Stbl, int64(trak.Mdia.Mdhd.Timescale)
	entry, ok := stbl.Stsd.Children[0].(*mp4.VisualSampleEntryBox)
	if !ok || len(stbl.Stsd.Children) != 1 || scale < 1 || stbl.Stts == nil || stbl.Stsz == nil {
		return nil, ErrNotPlain
	}
	n := int(stbl.Stsz.SampleNumber)
	if n < 1 || n > maxSamples {
		return nil, ErrNotPlain
	}
	shown, end, err := sampleTimes(stbl, n)
	if err != nil {
		return nil, err
	}
	first := slices.Min(shown)
	shift, err := editShift(moov, trak, first, end-first)
	if err != nil {
		return nil, err
	}
	us := func(ticks int64) int64 { // rounds as av_rescale_q does
		ticks += shift
		return (ticks*1_000_000*2 + scale) / (2 * scale)
	}
	t := &Timeline{Width: int(entry.Width), Height: int(entry.Height), End: us(end)}
	for i, ticks := range shown {
		if stbl.Stss == nil || isSync(stbl.Stss.SampleNumber, uint32(i+1)) {
			t.Keys = append(t.Keys, us(ticks))
		}
	}
	slices.Sort(shown)
	slices.Sort(t.Keys)
	for _, ticks := range shown {
		t.Times = append(t.Times, us(ticks))
	}
	return t, nil
}

// maxSamples limits the frames of a file: more than ten hours at 60 frames a second.
const maxSamples = 1 << 22

func isSync(sorted []uint32, n uint32) bool {
	_, found := slices.BinarySearch(sorted, n)
	return found
}

// sampleTimes returns when each sample is shown, and when the last one ends, in ticks of the media.
func sampleTimes(stbl *mp4.StblBox, n int) (shown []int64, end int64, err error) {
	at := int64(0)
	for i, count := range stbl.Stts.SampleCount {
		if int(count) > n-len(shown) {
			return nil, 0, ErrNotPlain
		}
		for range count {
			shown = append(shown, at)
			at += int64(stbl.Stts.SampleTimeDelta[i])
		}
	}
	if len(shown) != n {
		return nil, 0, ErrNotPlain
	}
	last := at - shown[n-1]
	if stbl.Ctts != nil {
		for i := range shown {
			shown[i] += int64(stbl.Ctts.GetCompositionTimeOffset(uint32(i + 1)))
		}
	}
	return shown, slices.Max(shown) + last, nil
}

// editShift returns what the edit list adds to the times of the media, in its ticks. Lists that omit frames are not plain.
func editShift(moov *mp4.MoovBox, trak *mp4.TrakBox, first, length int64) (int64, error) {
	if trak.Edts == nil || len(trak.Edts.Elst) == 0 {
		return 0, nil
	}
	movie, scale := int64(moov.Mvhd.Timescale), int64(trak.Mdia.Mdhd.Timescale)
	list := trak.Edts.Elst[0].Entries
	shift := int64(0)
	if len(list) == 2 && list[0].MediaTime == -1 && movie > 0 {
		shift = int64(list[0].SegmentDuration) * scale / movie
		list = list[1:]
	}
	if len(list) != 1 || list[0].MediaRateInteger != 1 || list[0].MediaTime != first || movie < 1 {
		return 0, ErrNotPlain
	}
	if d := int64(list[0].SegmentDuration); d != 0 && (d+1)*scale < length*movie { // shorter by more than rounding
		return 0, ErrNotPlain
	}
	return shift - first, nil
}
