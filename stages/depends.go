package stages

// Depends is what a Stage also is whose result depends on more columns than its Spec can know of, by the model
// that was opened.
type Depends interface {
	// Params returns those columns; they join Spec.Params in the keys.
	Params() []Param
}
