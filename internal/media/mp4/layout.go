package mp4

import "encoding/binary"

// HasLayoutOfMux reports whether a file has the layout of Mux: ftyp, moov and mdat, and a track without an edit list. Other
// programs that write mp4 add further boxes between these, or an edit list.
func HasLayoutOfMux(data []byte) bool {
	top, whole := boxes(data)
	if !whole || len(top) != 3 || top[0].kind != "ftyp" || top[1].kind != "moov" || top[2].kind != "mdat" {
		return false
	}
	if string(data[8:12]) != "isom" {
		return false
	}
	moov, whole := boxes(top[1].body)
	if !whole || len(moov) < 2 || moov[0].kind != "mvhd" || moov[1].kind != "trak" || len(moov) > 2 && moov[2].kind != "udta" {
		return false
	}
	trak, whole := boxes(moov[1].body)
	return whole && len(trak) == 2 && trak[0].kind == "tkhd" && trak[1].kind == "mdia"
}

type rawBox struct {
	kind string
	body []byte
}

// boxes splits data into its boxes; whole says that they fill it.
func boxes(data []byte) (all []rawBox, whole bool) {
	for len(data) >= 8 {
		n := uint64(binary.BigEndian.Uint32(data))
		if n < 8 || n > uint64(len(data)) {
			return all, false
		}
		all = append(all, rawBox{string(data[4:8]), data[8:n]})
		data = data[n:]
	}
	return all, len(data) == 0
}
