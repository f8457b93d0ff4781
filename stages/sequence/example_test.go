package sequence_test

import (
	"fmt"

	"latentbeam/stages/sequence"
)

// Ten frames are divided among three workers; the last one has half the speed.
func ExampleCut() {
	ranges, err := sequence.Cut(10, []float64{1, 1, 0.5})
	fmt.Println(ranges, err)
	// Output: [{0 4} {4 8} {8 10}] <nil>
}

// Three workers divide the columns of a video. 16 positions cannot be divided evenly by 3, so one worker has 6 columns and the
// others 5; nothing is padded.
func ExampleNew() {
	plan, err := sequence.New(sequence.Shape{Batch: 1, Frames: 4, Positions: 16, Heads: 2, HeadSize: 8, QueryTile: 1},
		sequence.Uneven, sequence.Equal(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank := range plan.Ranks {
		for _, c := range plan.Columns(rank) {
			fmt.Println(rank, c.Element, c.Lo, c.Hi)
		}
	}
	// Output:
	// 0 0 0 6
	// 1 0 6 11
	// 2 0 11 16
}
