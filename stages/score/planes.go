package score

// motion is the mean absolute difference of grey between adjacent frames.
type motion struct {
	past       []byte
	sum, count int64
}

func (m *motion) add(f frame) {
	if m.past != nil {
		m.sum += distance(f.grey, m.past)
		m.count += int64(len(f.grey))
	}
	m.past = append(m.past[:0], f.grey...)
}

func (m *motion) read(into map[string]string) {
	into[motionName] = number(float64(m.sum) / float64(max(1, m.count)))
}

// luminance is the mean of grey.
type luminance struct{ sum, count int64 }

func (l *luminance) add(f frame) {
	for _, v := range f.grey {
		l.sum += int64(v)
	}
	l.count += int64(len(f.grey))
}

func (l *luminance) read(into map[string]string) {
	into[luminanceName] = number(float64(l.sum) / float64(l.count))
}

// sharpness is the variance of the Laplacian of grey, averaged over all frames. The Laplacian is OpenCV's with aperture 1: the
// four neighbours minus four times the pixel, mirrored at the edges without repeating the edge.
type sharpness struct {
	sum    float64
	frames int
}

func (s *sharpness) add(f frame) {
	w, h := f.width, f.height
	var sum, squares int64
	for y := range h {
		above, row, below := f.grey[mirrored(y-1, h)*w:][:w], f.grey[y*w:][:w], f.grey[mirrored(y+1, h)*w:][:w]
		for x, v := range row {
			at := int64(above[x]) + int64(below[x]) + int64(row[mirrored(x-1, w)]) + int64(row[mirrored(x+1, w)]) - 4*int64(v)
			sum += at
			squares += at * at
		}
	}
	n := int64(w) * int64(h)
	mean := float64(sum) / float64(n)
	s.sum += float64(squares)/float64(n) - float64(mean*mean)
	s.frames++
}

func (s *sharpness) read(into map[string]string) {
	into[sharpnessName] = number(s.sum / float64(max(1, s.frames)))
}

// mirrored returns the index for i, which may be one outside of 0 to n-1.
func mirrored(i, n int) int {
	switch {
	case n == 1:
		return 0
	case i < 0:
		return 1
	case i == n:
		return n - 2
	}
	return i
}
