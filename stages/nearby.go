package stages

// Nearby is a Picker that knows how its devices are linked.
type Nearby interface {
	Picker
	// Closest returns n of the free devices, those that exchange fastest, in ascending order.
	Closest(free []int, n int) []int
}

// Labelled is a Picker whose devices can be told apart: what one computes wrongly another may compute well.
type Labelled interface {
	Picker
	// Label names the hardware of a device for people; devices of one label are one piece of it.
	Label(device int) string
	// Note takes down for the summary of the run what happened to a device.
	Note(device int, event string)
	// Drain takes a device out: it is lent no more in this run. It reports whether it could.
	Drain(device int, why string) bool
}
