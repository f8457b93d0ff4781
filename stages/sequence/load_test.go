package sequence

import "testing"

// stdit3 returns the cost of a pair of STDiT3-XL/2 blocks, computed from the shapes of its layers: qkv and proj of two
// attentions, q and proj of two cross attentions to 300 tokens of text, two MLPs of ratio 4.
func stdit3(frames int) Costs {
	const c, d, text = 1152, 72, 300
	return Costs{
		Local:   6*c*c + 2*c*c + 2*c*c + 2*4*c*c + 2*16*c*c + 4*float64(frames)*c + 2*4*text*c,
		Project: 6 * c * c,
		Score:   4 * d,
	}
}

// dsp returns how many numbers each of n ranks sends for one pair of blocks under DSP (dynamic sequence parallelism, VideoSys):
// 2 A/N (N-1)/N, where A is the size of the tokens. DSP pads frames and positions to multiples of n first.
func dsp(s Shape, n int) float64 {
	frames, positions := (s.Frames+n-1)/n*n, (s.Positions+n-1)/n*n
	a := float64(s.Batch*frames*positions) * float64(s.Width())
	return 2 * a / float64(n) * float64(n-1) / float64(n)
}

// TestBalanceAndTrafficOf16Frames: for 16 frames of 1024 positions, with guidance (2 branches) and without, the busiest rank does at
// most 0.8 % more than its share and sends at most 2 A/N numbers, where A is the size of the tokens and N the number of ranks.
func TestBalanceAndTrafficOf16Frames(t *testing.T) {
	for batch := 1; batch <= 2; batch++ {
		for n := 2; n <= 8; n++ {
			s := Shape{batch, 16, 1024, 16, 72, 64, false}
			p, err := New(s, Uneven, Equal(n))
			if err != nil {
				t.Fatal(err)
			}
			var most, sum float64
			for _, t := range p.Sent() {
				sent := float64(t.Total())
				most, sum = max(most, sent), sum+sent
			}
			all := 2 * float64(batch*16*1024*1152) / float64(n) // 2 A/N
			exact := all * float64(n-1) / float64(n)            // what DSP would send without padding
			waste := p.Imbalance(stdit3(16))
			t.Logf("%d branches on %d ranks: imbalance %.2f%%; the busiest sends %.3f of 2 A/N, %.2f of what DSP sends, "+
				"%.2f of that without its padding; the mean %.2f", batch, n, 100*waste, most/all, most/dsp(s, n),
				most/exact, sum/float64(n)/exact)
			if waste > 0.016/2 {
				t.Errorf("%d branches on %d ranks: got an imbalance of %.2f%%, want at most 0.8%%",
					batch, n, 100*waste)
			}
			if most > all || batch%n == 0 && most > 0 { // if the branches divide evenly, nothing needs to be sent
				t.Errorf("%d branches on %d ranks: the busiest sends %.3f of 2 A/N, want at most 1 (0 if branches divide)", batch, n, most/all)
			}
			if batch == 2 && (most > 1.01*exact || most > dsp(s, n)) {
				t.Errorf("%d ranks: the busiest sends %.0f numbers, a rank of DSP %.0f, without padding %.0f",
					n, most, dsp(s, n), exact)
			}
		}
	}
}

// TestTheBusiestSendsAtMost2AByN: the busiest of N ranks sends at most 2 A/N numbers, where A is the size of the tokens, for batches
// of one to fourteen sequences of 16 and 30 latent frames.
func TestTheBusiestSendsAtMost2AByN(t *testing.T) {
	worst := 0.0
	for n := 2; n <= 8; n++ {
		for _, s := range []Shape{{2, 16, 1024, 16, 72, 64, false}, {2, 30, 920, 16, 72, 64, false}, {4, 16, 256, 16, 72, 64, false},
			{6, 30, 3600, 16, 72, 64, false}, {14, 16, 60, 4, 8, 64, false},
			{1, 16, 256, 16, 72, 64, false}, {1, 30, 3600, 16, 72, 64, false}} {
			p, err := New(s, Uneven, Equal(n))
			if err != nil {
				t.Fatal(err)
			}
			all := 2 * float64(s.Batch*s.Frames*s.Positions*s.Width()) / float64(n)
			most := float64(p.score().largest)
			if worst = max(worst, most/all); most > all || s.Batch%n == 0 && most > 0 {
				t.Errorf("%+v on %d ranks: the busiest sends %.3f of 2 A/N, want at most 1 (0 if the batch divides)", s, n, most/all)
			}
		}
	}
	t.Logf("at most %.2f of 2 A/N", worst)
}

// TestTrafficOfAFrameOfTwo: three frames on two ranks, so that the ranks share one. Each rank sends its half of that frame's tokens
// to the other, which computes queries, keys and values itself: less traffic than these three tensors. Each sends back its
// part of the result.
func TestTrafficOfAFrameOfTwo(t *testing.T) {
	s := Shape{1, 3, 8, 4, 6, 1, false}
	p, err := New(s, Uneven, Equal(2))
	if err != nil {
		t.Fatal(err)
	}
	frame := int64(s.Positions * s.Width())
	for r := range 2 {
		if got, want := p.Sent()[r], (Traffic{2 * frame / 2, frame/2 + frame/4}); got != want {
			t.Errorf("rank %d sends %+v, want %+v", r, got, want)
		}
		if got, want := p.Load(r, Costs{Local: 1, Project: 100}), (Load{12, 100 * 12}); got != want {
			t.Errorf("rank %d has the load %+v, want %+v", r, got, want)
		}
	}
}

// TestOnePartitionSendsAtMost2AByN: for 12 to 64 frames on 2 to 8 ranks, at least one of the partitions Uneven and Pad lets the
// busiest rank send at most 2 A/N numbers.
func TestOnePartitionSendsAtMost2AByN(t *testing.T) {
	for frames := 12; frames <= 64; frames++ {
		for n := 2; n <= 8; n++ {
			for batch := 1; batch <= 2; batch++ {
				s := Shape{batch, frames, 1024, 16, 72, 64, false}
				all := 2 * int64(s.Batch*s.Frames*s.Positions*s.Width())
				var most [2]int64
				for _, kind := range []Partition{Uneven, Pad} {
					p, err := New(s, kind, Equal(n))
					if err != nil {
						t.Fatal(err)
					}
					most[kind] = p.score().largest * int64(n)
				}
				if min(most[Uneven], most[Pad]) > all {
					t.Errorf("%+v on %d ranks: %d under uneven, %d under pad, 2 A/N is %d", s, n, most[Uneven], most[Pad], all)
				}
			}
		}
	}
}

// TestTrafficFormulas: where the frames or the batch divide evenly by the ranks, every rank sends 2 A/N (G-1)/G numbers: G ranks
// share an element, and a rank keeps its own part.
func TestTrafficFormulas(t *testing.T) {
	for _, c := range []struct{ batch, frames, positions, ranks int }{
		{1, 16, 1024, 4}, {1, 30, 60, 5}, {2, 16, 64, 8}, {2, 16, 64, 4}, {3, 12, 64, 6}, // frames divide
		{4, 5, 7, 2}, {6, 1, 31, 3}, {8, 17, 5, 8}, // the batch divides: nothing is sent
	} {
		s := Shape{c.batch, c.frames, c.positions, 4, 8, 1, false}
		group := max(1, c.ranks/c.batch) // ranks that share an element
		a := float64(c.batch * c.frames * c.positions * s.Width())
		want := int64(2 * a / float64(c.ranks) * float64(group-1) / float64(group))
		for _, kind := range []Partition{Uneven, Pad} {
			p, err := New(s, kind, Equal(c.ranks))
			if err != nil {
				t.Fatal(err)
			}
			for r, got := range p.Sent() {
				if got.Total() != want || got.LeftOver != 0 {
					t.Errorf("%+v %v: rank %d sends %+v, want %d and nothing left over", c, kind, r, got, want)
				}
			}
			if p.Moves() != (want > 0) {
				t.Errorf("%+v %v: Moves is %v, want %v", c, kind, p.Moves(), want > 0)
			}
		}
	}
}

// TestTrafficOfALeftOverFrame: five frames on four ranks: each has one whole frame, and one of the 4 heads of the fifth. Queries, keys
// and values go to the owner of the head, and results come back: four tensors, of which a rank keeps its own quarter.
func TestTrafficOfALeftOverFrame(t *testing.T) {
	const n, d = 4, 6
	s := Shape{1, 5, 8, n, d, 1, false}
	p, err := New(s, Uneven, Equal(n))
	if err != nil {
		t.Fatal(err)
	}
	frame := s.Positions * s.Width()
	for r, got := range p.Sent() {
		each := int64(frame) / n * (n - 1) / n // of a tensor of one frame
		if want := (Traffic{2 * 4 * each, 4 * each}); got != want {
			t.Errorf("rank %d sends %+v, want %+v", r, got, want)
		}
	}
}

// TestHeadsThatDoNotDivide: 24 heads on 5 ranks are 4.8 heads each. Nothing is padded. Two ranks that share a head both read its keys
// and values. If queries of a head could not be divided, the busiest rank would have 5 heads, 4.2 % more than its share.
func TestHeadsThatDoNotDivide(t *testing.T) {
	s := Shape{1, 1, 28800, 24, 96, 64, false}
	p, err := New(s, Uneven, Equal(5))
	if err != nil {
		t.Fatal(err)
	}
	heads := 0
	for r := range p.Ranks {
		for _, c := range p.Pieces(r) {
			heads += c.Heads.Len()
		}
	}
	if heads != 24+4 {
		t.Errorf("the ranks read the keys of %d heads, want 24 and one more for each of 4 cuts", heads)
	}
	if waste := p.Imbalance(Costs{Score: 4 * 96}); waste > 0.002 {
		t.Errorf("imbalance %.3f%%, want next to none", 100*waste)
	}
	s.QueryTile = 0
	if p, err = New(s, Uneven, Equal(5)); err != nil {
		t.Fatal(err)
	}
	if waste := p.Imbalance(Costs{Score: 4 * 96}); waste < 0.041 || waste > 0.042 {
		t.Errorf("whole heads: imbalance %.1f%%, want 4.2%%", 100*waste)
	}
}

// TestPaddingIsWork: 16 frames of 1024 positions on 3 ranks are padded to 18 and 1026; the padding counts as imbalance.
func TestPaddingIsWork(t *testing.T) {
	p, err := New(Shape{1, 16, 1024, 16, 72, 64, false}, Pad, Equal(3))
	if err != nil {
		t.Fatal(err)
	}
	if waste := p.Imbalance(Costs{Project: 1}); waste < 0.125 || waste > 0.13 {
		t.Errorf("16 frames padded to 18 waste %.1f%% in frames, want 12.5%% and the padded positions", 100*waste)
	}
	if p.FrameSlots(2) != 6 || p.Keys != 1026 {
		t.Errorf("the last rank has %d frames of %d keys, want 6 of 1026", p.FrameSlots(2), p.Keys)
	}
}
