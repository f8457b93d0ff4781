package stages

// Streamer is a Stage whose blocks can pass through the memory of devices, while a job runs too.
type Streamer interface {
	// Staying returns how many blocks stay in the memory of a device, and how many there are.
	Staying() (stay, of int)
	// Stream lets no more than the first so many blocks stay. Every device goes over to that at its next use.
	Stream(stay int)
}
