package stages

// Nearby is a Picker that knows how its devices are linked.
type Nearby interface {
	Picker
	// Closest returns n of the free devices, those that exchange fastest, in ascending order.
	Closest(free []int, n int) []int
}
