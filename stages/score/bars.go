package score

import "strconv"

// bars counts the rows at the top and bottom, and the columns on the left and right, that are black in every frame: their mean
// grey is at most level.
type bars struct {
	level         int
	rows, columns []int64 // the largest sum of grey in any frame
	height, width int
}

func (b *bars) add(f frame) {
	if b.rows == nil {
		b.height, b.width = f.height, f.width
		b.rows, b.columns = make([]int64, f.height), make([]int64, f.width)
	}
	columns := make([]int64, f.width)
	for y := range f.height {
		var row int64
		for x, v := range f.grey[y*f.width:][:f.width] {
			row += int64(v)
			columns[x] += int64(v)
		}
		b.rows[y] = max(b.rows[y], row)
	}
	for x, v := range columns {
		b.columns[x] = max(b.columns[x], v)
	}
}

func (b *bars) read(into map[string]string) {
	into[blackRows] = strconv.Itoa(atEdges(b.rows, int64(b.level*b.width)))
	into[blackColumns] = strconv.Itoa(atEdges(b.columns, int64(b.level*b.height)))
}

// atEdges counts the lines before the first and after the last line whose sum is above the limit.
func atEdges(sums []int64, limit int64) int {
	first := 0
	for first < len(sums) && sums[first] <= limit {
		first++
	}
	last := len(sums)
	for last > first && sums[last-1] <= limit {
		last--
	}
	return first + len(sums) - last
}
