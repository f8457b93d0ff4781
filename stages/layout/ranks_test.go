package layout

import (
	"fmt"
	"strings"
	"testing"

	"latentbeam/stages/sequence"
)

// TestRanksTable: README.md has the computed table of the work and the traffic of one of N ranks, for an element of 16 frames,
// with guidance (2 branches) and without (1). TestCountersOf16Frames of stdit counts the same while the network runs.
func TestRanksTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| branches | ranks | columns each | whole frames each | left over | imbalance | " +
		"sent by the busiest | on average | `pad`: imbalance | sent by the busiest |\n" +
		strings.Repeat("|---", 10) + "|\n")
	for branches := 2; branches >= 1; branches-- {
		for n := 2; n <= 8; n++ {
			fmt.Fprintf(&table, "| %d | %d | %s |\n", branches, n, rowOfRanks(t, branches, n))
		}
	}
	compareDocumented(t, "ranks", table.String())
}

func rowOfRanks(t *testing.T, branches, n int) string {
	split := *stdit3(16, 1024, float64(branches))[1].Split
	even, err := sequence.New(split.Shape, sequence.Uneven, sequence.Equal(n))
	if err != nil {
		t.Fatal(err)
	}
	padded, err := sequence.New(split.Shape, sequence.Pad, sequence.Equal(n))
	if err != nil {
		t.Fatal(err)
	}
	least, most := even.ColumnSlots(n-1), even.ColumnSlots(0)
	for r := range n {
		least, most = min(least, even.ColumnSlots(r)), max(most, even.ColumnSlots(r))
	}
	columns := fmt.Sprint(least)
	if most > least {
		columns = fmt.Sprintf("%d or %d", least, most)
	}
	busiest, average := sent(even)
	other, _ := sent(padded)
	return fmt.Sprintf("%s | %d | %d | %.2f %% | %.2f | %.2f | %.2f %% | %.2f", columns, even.FrameSlots(0),
		len(even.LeftFrames()), 100*even.Imbalance(split.Costs), busiest, average,
		100*padded.Imbalance(split.Costs), other)
}

// sent returns the numbers that the busiest rank sends for a pair of blocks, and the mean over all ranks. The unit is 2 A/N, where A
// is the size of the batch's tokens and N the number of ranks.
func sent(p *sequence.Plan) (busiest, average float64) {
	s := p.Shape
	all := 2 * float64(s.Batch*s.Frames*s.Positions*s.Width())
	for _, t := range p.Sent() {
		n := float64(t.Total())
		busiest, average = max(busiest, n*float64(p.Ranks)/all), average+n/all
	}
	return busiest, average
}

// TestAutoPartitionOf16Frames: on fast and on slow links, the partition that `auto` takes for 16 frames keeps two limits: the
// busiest rank computes at most 1.6 % more than its share, and sends at most 2 A/N numbers (see sent).
func TestAutoPartitionOf16Frames(t *testing.T) {
	for branches := 1; branches <= 2; branches++ {
		for n := 2; n <= 8; n++ {
			for _, kind := range []string{"H100", "A100PCIe", "T4"} {
				f, err := Cheapest(*stdit3(16, 1024, float64(branches))[1].Split, 1, devices(t, fmt.Sprint(n, "x", kind)))
				if err != nil {
					t.Fatal(err)
				}
				if busiest, _ := sent(f.Plan); f.Waste > 0.016 || busiest > 1 || branches%n == 0 && busiest > 0 {
					t.Errorf("%d branches on %dx%s, %v: the busiest rank computes %.2f %% above its share and sends %.3f of 2 A/N",
						branches, n, kind, f.Plan.Partition, 100*f.Waste, busiest)
				}
			}
		}
	}
}
