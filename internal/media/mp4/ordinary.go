package mp4

import (
	"bytes"
	"io"

	"github.com/Eyevinn/mp4ff/avc"
	"github.com/Eyevinn/mp4ff/hevc"
	"github.com/Eyevinn/mp4ff/mp4"
)

// Ordinary reports whether a file's header proves that its video has progressive frames, square pixels and no high dynamic
// range. For H.264 and HEVC it reads the parameter sets. It is false for any other file.
func Ordinary(file io.ReaderAt, length int64) (yes bool) {
	data, err := findMoov(file, length)
	if err != nil {
		return false
	}
	defer func() {
		if recover() != nil { // a damaged file
			yes = false
		}
	}()
	box, err := mp4.DecodeBox(0, bytes.NewReader(data))
	moov, ok := box.(*mp4.MoovBox)
	if err != nil || !ok {
		return false
	}
	for _, trak := range moov.Traks {
		if trak.Mdia == nil || trak.Mdia.Hdlr == nil || trak.Mdia.Hdlr.HandlerType != "vide" {
			continue
		}
		entries := trak.Mdia.Minf.Stbl.Stsd.Children
		entry, ok := entries[0].(*mp4.VisualSampleEntryBox)
		return ok && len(entries) == 1 && ordinaryEntry(entry)
	}
	return false
}

// ordinaryEntry checks the description of a track's samples, and its parameter sets.
func ordinaryEntry(entry *mp4.VisualSampleEntryBox) bool {
	if entry.Pasp != nil && entry.Pasp.HSpacing != entry.Pasp.VSpacing {
		return false
	}
	for _, child := range entry.Children {
		if colr, ok := child.(*mp4.ColrBox); ok && isHDR(uint(colr.TransferCharacteristics)) || child.Type() == "fiel" {
			return false
		}
	}
	switch {
	case entry.AvcC != nil:
		return ordinaryAVC(entry.AvcC.SPSnalus)
	case entry.HvcC != nil:
		return ordinaryHEVC(entry.HvcC.GetNalusForType(hevc.NALU_SPS))
	}
	return false
}

func ordinaryAVC(sets [][]byte) bool {
	for _, set := range sets {
		s, err := avc.ParseSPSNALUnit(set, true)
		if err != nil || !s.FrameMbsOnlyFlag {
			return false
		}
		if v := s.VUI; v != nil && (v.SampleAspectRatioWidth != v.SampleAspectRatioHeight || isHDR(v.TransferCharacteristics)) {
			return false
		}
	}
	return len(sets) > 0
}

func ordinaryHEVC(sets [][]byte) bool {
	for _, set := range sets {
		s, err := hevc.ParseSPSNALUnit(set)
		if err != nil {
			return false
		}
		if v := s.VUI; v != nil && (v.SampleAspectRatioWidth != v.SampleAspectRatioHeight || v.FieldSeqFlag ||
			isHDR(uint(v.TransferCharacteristics))) {
			return false
		}
	}
	return len(sets) > 0
}

// isHDR reports whether a transfer function is PQ or HLG (ITU-T H.273, table 3).
func isHDR(transfer uint) bool { return transfer == 16 || transfer == 18 }
