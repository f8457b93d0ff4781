package mp4

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/Eyevinn/mp4ff/mp4"
)

// Describe writes a title and a comment into the item list of an mp4 (©nam, ©cmt). It adds them to moov and updates the offsets
// of all samples after it. It panics on some damaged files, because mp4ff does not check boxes.
func Describe(data []byte, title, comment string) ([]byte, error) {
	f, err := mp4.DecodeFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if f.Moov == nil || f.Mdat == nil || f.Moov.StartPos > f.Mdat.StartPos {
		return nil, fmt.Errorf("the file has no moov before its mdat")
	}
	payload := itemList(title, comment)
	udta := mp4.CreateUnknownBox("udta", uint64(8+len(payload)), payload)
	f.Moov.AddChild(udta)
	for _, trak := range f.Moov.Traks {
		stbl := trak.Mdia.Minf.Stbl
		if stbl.Stco == nil {
			return nil, fmt.Errorf("track %d has no stco", trak.Tkhd.TrackID)
		}
		for i := range stbl.Stco.ChunkOffset {
			stbl.Stco.ChunkOffset[i] += uint32(udta.Size())
		}
	}
	var out bytes.Buffer
	out.Grow(len(data) + int(udta.Size()))
	if err := f.Encode(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// itemList returns the content of udta: meta, hdlr and ilst, as in the QuickTime file format and iTunes.
func itemList(title, comment string) []byte {
	handler := append(make([]byte, 8), "mdirappl"...)
	handler = append(handler, make([]byte, 9)...) // flags, reserved, empty name
	var items []byte
	for _, item := range []struct{ kind, text string }{{"\xa9nam", title}, {"\xa9cmt", comment}} {
		value := append([]byte{0, 0, 0, 1, 0, 0, 0, 0}, item.text...) // UTF-8, no locale
		items = append(items, box(item.kind, box("data", value))...)
	}
	meta := append(make([]byte, 4), box("hdlr", handler)...)
	return box("meta", append(meta, box("ilst", items)...))
}

// box returns a box of ISO/IEC 14496-12.
func box(kind string, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(payload)))
	return append(append(b, kind...), payload...)
}
