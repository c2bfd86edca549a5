package plots

import "github.com/nvls-allreduce/nvls-allreduce/internal/result"

// What a chart is drawn of. Results are files that the program writes (-J, or
// import), which Read reads; a program may also fill in a Run of its own.
type (
	// Run is one execution of a benchmark: who ran, where, and the rows.
	Run = result.Run
	// Row is one measured size of one mode.
	Row = result.Row
	// Device is the GPU of one rank.
	Device = result.Device
	// Status says how far a run came; a chart shows what was cut short.
	Status = result.Status
	// State is how far a run came: Complete, and words for less.
	State = result.State
	// Placement says whether send and receive buffer of a row were one.
	Placement = result.Placement
)

// Values of Status.State and Row.Placement.
const (
	Complete   = result.Complete
	OutOfPlace = result.OutOfPlace
	InPlace    = result.InPlace
)

// Read reads a result file. An error says in words what is wrong with it.
func Read(path string) (*Run, error) { return result.ReadFile(path) }
