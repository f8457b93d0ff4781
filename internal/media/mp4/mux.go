package mp4

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/internal/media/h264"
)

const (
	// minTimescale is the lowest clock rate of a track, in ticks a second. Some editors expect a tenth of a millisecond or finer.
	minTimescale = 10000
	// movieTimescale is the clock of the movie header: milliseconds, as usual.
	movieTimescale = 1000
	// maxMediaBytes limits offsets to the 32 bits of stco.
	maxMediaBytes = math.MaxUint32 - 1<<20
)

// Mux writes a progressive MP4 with one video track: ftyp, moov, mdat in this order, so that a player can start before it has
// the whole file.
func Mux(c h264.Config, s *h264.Stream) ([]byte, error) {
	mdat := &mp4.MdatBox{}
	for _, sample := range s.Samples {
		mdat.AddSampleDataPart(binary.BigEndian.AppendUint32(nil, uint32(len(sample))))
		mdat.AddSampleDataPart(sample)
	}
	if mdat.Size() > maxMediaBytes {
		return nil, fmt.Errorf("%d bytes of video: at most %d fit", mdat.Size(), int64(maxMediaBytes))
	}
	ftyp := mp4.NewFtyp("isom", 0x200, []string{"isom", "iso2", "avc1", "mp41"})
	trak, err := videoTrack(c, s)
	if err != nil {
		return nil, err
	}
	moov := mp4.NewMoovBox()
	mvhd := mp4.CreateMvhd()
	mvhd.Timescale = movieTimescale
	mvhd.Duration = trak.Tkhd.Duration
	moov.AddChild(mvhd)
	moov.AddChild(trak)

	// The offset has a fixed length, so moov's size does not depend on it.
	offset := ftyp.Size() + moov.Size() + mdat.HeaderSize()
	trak.Mdia.Minf.Stbl.Stco.ChunkOffset = []uint32{uint32(offset)}

	var out bytes.Buffer
	out.Grow(int(ftyp.Size() + moov.Size() + mdat.Size()))
	for _, box := range []mp4.Box{ftyp, moov, mdat} {
		if err := box.Encode(&out); err != nil {
			return nil, fmt.Errorf("box %s: %w", box.Type(), err)
		}
	}
	return out.Bytes(), nil
}

func videoTrack(c h264.Config, s *h264.Stream) (*mp4.TrakBox, error) {
	timescale, delta := uint64(c.FPSNum), uint64(c.FPSDen)
	for timescale < minTimescale {
		timescale, delta = 2*timescale, 2*delta
	}
	duration := uint64(len(s.Samples)) * delta
	if duration > math.MaxUint32 {
		return nil, fmt.Errorf("%d frames at %d/%d a second are too long", len(s.Samples), c.FPSNum, c.FPSDen)
	}
	trak := mp4.CreateEmptyTrak(1, uint32(timescale), "video", "und")
	trak.Tkhd.Flags = 3 // enabled, in movie
	trak.Tkhd.Duration = (duration*movieTimescale + timescale/2) / timescale
	trak.Tkhd.Width, trak.Tkhd.Height = mp4.Fixed32(c.Width)<<16, mp4.Fixed32(c.Height)<<16
	trak.Mdia.Mdhd.Duration = duration
	trak.Mdia.Hdlr.Name = "VideoHandler"

	entry, err := sampleEntry(c, s)
	if err != nil {
		return nil, err
	}
	stbl := trak.Mdia.Minf.Stbl
	stbl.Stsd.AddChild(entry)
	stbl.Stts.SampleCount = []uint32{uint32(len(s.Samples))}
	stbl.Stts.SampleTimeDelta = []uint32{uint32(delta)}
	stbl.Stsz.SampleNumber = uint32(len(s.Samples))
	stss := &mp4.StssBox{}
	for i, sample := range s.Samples {
		stbl.Stsz.SampleSize = append(stbl.Stsz.SampleSize, uint32(lengthPrefix+len(sample)))
		if s.Key[i] {
			stss.SampleNumber = append(stss.SampleNumber, uint32(i+1))
		}
	}
	stbl.AddChild(stss)
	if err := stbl.Stsc.AddEntry(1, uint32(len(s.Samples)), 1); err != nil {
		return nil, fmt.Errorf("sample table: %w", err)
	}
	stbl.Stco.ChunkOffset = []uint32{0}
	return trak, nil
}

// lengthPrefix is the size of the length before each NAL unit, as in avcC.
const lengthPrefix = 4

// sampleEntry returns avc1 with its parameter sets and colours (ISO/IEC 14496-15, 14496-12 section 12.1.5).
func sampleEntry(c h264.Config, s *h264.Stream) (*mp4.VisualSampleEntryBox, error) {
	avcC, err := mp4.CreateAvcC([][]byte{s.SPS}, [][]byte{s.PPS}, true)
	if err != nil {
		return nil, fmt.Errorf("decoder configuration: %w", err)
	}
	entry := mp4.CreateVisualSampleEntryBox("avc1", uint16(c.Width), uint16(c.Height), avcC)
	entry.CompressorName = ""
	entry.AddChild(&mp4.ColrBox{
		ColorType:               mp4.ColorTypeOnScreenColors,
		ColorPrimaries:          h264.ColourPrimaries,
		TransferCharacteristics: h264.TransferFunc,
		MatrixCoefficients:      h264.MatrixCoeffs,
	})
	return entry, nil
}
