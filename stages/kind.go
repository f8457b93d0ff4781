package stages

// Kind is the kind of data that an element carries between two stages.
type Kind string

// The kinds, in the order in which a text-to-video job passes them.
const (
	KindPrompt  Kind = "prompt"  // a row of the prompt table
	KindText    Kind = "text"    // text embeddings: Element.Text
	KindMedia   Kind = "media"   // a video or image to be encoded: Element.Media, else Element.Row.Media
	KindLatents Kind = "latents" // VAE latents: Element.Latents
	KindFrames  Kind = "frames"  // RGB24 frames: Element.Frames
	KindVideo   Kind = "video"   // an encoded file: Element.Video
)
